// .npy: one tensor, in the format of NumPy (numpy.lib.format).
// Read: versions 1.0, 2.0 and 3.0; '?', i1-i8, u1-u8, f2, f4, f8, either byte order, row- or column-major, up to four
// dimensions. Written: version 1.0, f2, f4, f8, byte for byte as NumPy writes them.
#pragma once

#include <string>

#include "core/base/file.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway {

// Throw Error, naming the source and the fault, for anything that is not exactly one such array.
Tensor read_npy(const Source& source);
Tensor read_npy(Bytes bytes, const std::string& name);
Tensor load_npy(const std::string& path);

// What stands before the elements in a file of version 1.0: magic, length and header. `where` begins the sentence of
// the Error that BFloat16 is, which the format does not know.
std::string npy_header(const Tensor& value, const std::string& where);

// Throws Error for BFloat16, and when the file cannot be written.
void save_npy(const std::string& path, const Tensor& value);

}  // namespace causeway
