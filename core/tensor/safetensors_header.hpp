// The header of a .safetensors file, checked: what the readers of whole tensors and of model weights share.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/file.hpp"

namespace causeway::safetensors {

inline constexpr std::uint64_t longest_header = 100'000'000;  // the library's own limit
inline constexpr std::size_t length_bytes = 8;                // of the number that begins the file
inline constexpr const char* metadata_key = "__metadata__";

// A tensor's own words. Its bytes are those from `begin` to before `end` in the file, within it and no other's.
struct Entry {
    std::string type;
    std::vector<std::uint64_t> shape;
    std::uint64_t begin = 0, end = 0;
};

struct Header {
    std::map<std::string, Entry> entries;
    std::map<std::string, std::string> metadata;
};

// Throws Error, naming the source and the fault, for what read_safetensors refuses, but for what an entry's type is and
// whether its shape needs the bytes that it has (checked_shape of core/tensor/stored.hpp).
Header read_header(const Source& source);

}  // namespace causeway::safetensors
