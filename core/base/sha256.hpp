// SHA-256 (FIPS 180-4): whether bytes that came from elsewhere are those that were meant.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "core/base/file.hpp"  // Bytes

namespace causeway {

class Sha256 {
public:
    void add(Bytes bytes);
    // 64 hexadecimal digits of all that was added.
    std::string text() const;

private:
    void step(const unsigned char* block);

    std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::array<unsigned char, 64> open_{};  // the last size_ % 64 bytes, which wait for the rest of their block
    std::uint64_t size_ = 0;
};

// Of the content of a file. Throws IoError where it cannot be read; stops for interrupt::check().
std::string sha256_of_file(const std::string& path);

}  // namespace causeway
