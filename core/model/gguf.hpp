// GGUF, the file format of ggml: metadata and tensors in one file. Versions 2 and 3, little-endian:
//
//   "GGUF", u32 version, u64 tensors, u64 keys
//   a key: text name, u32 kind, value     (text: u64 length, bytes; a list: u32 kind, u64 count, values)
//   a tensor: text name, u32 dimensions, u64 each (innermost first), u32 type, u64 offset of its data
//   padding to the alignment (the key general.alignment, otherwise 32); the data
#pragma once

#include <string>

#include "core/base/file.hpp"
#include "core/model/checkpoint.hpp"

namespace causeway::model {

// The header of the file whose bytes these are; they stay alive as long as what is returned. Throws IoError, in one
// sentence that begins with `name`, for what is not such a file. The lists of the metadata are read when they are asked
// for, so a file that promises a billion texts costs nothing until then.
Contents read_gguf(Bytes bytes, const std::string& name);

Contents load_gguf(const std::string& path);

}  // namespace causeway::model
