// A digest of bytes: tells whether two things are the same without keeping the first. No protection against someone who
// wants two things to agree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/file.hpp"  // Bytes

namespace causeway {

// The digest, 64 bits, of all bytes in the order in which they were added, however they were divided among the calls.
// Eight bytes a step, so a large tensor takes about as long as reading it once.
class Digest {
public:
    void add(Bytes bytes);
    void add(std::string_view text);
    // 16 hexadecimal digits.
    std::string text() const;

private:
    void step(std::uint64_t word);

    std::uint64_t hash_ = 0xcbf29ce484222325u;
    std::uint64_t size_ = 0;
    std::uint64_t open_ = 0;  // the last size_ % 8 bytes, which wait for the rest of their word
};

// Of the content of a file, and of its size. Throws Error where it cannot be read.
std::string digest_of_file(const std::string& path);

}  // namespace causeway
