// Whole numbers as file formats hold them, the least byte first, whatever the machine's own order.
#pragma once

#include <cstdint>
#include <span>

namespace causeway {

// Of at most eight bytes.
inline std::uint64_t little_endian(std::span<const unsigned char> bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | bytes[i];
    return value;
}

}  // namespace causeway
