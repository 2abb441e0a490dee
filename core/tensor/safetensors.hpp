// .safetensors: named tensors, in the format of the safetensors library: the length of the header (8 bytes), the
// header (JSON: name -> dtype, shape, data_offsets), the elements.
// Read: BOOL, I8-I64, U8-U64, F16, BF16, F32, F64, up to four dimensions. Written: F16, BF16, F32, F64, byte for byte
// as the library writes them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/file.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway {

// What a file holds.
struct NamedTensors {
    std::map<std::string, Tensor> tensors;
    std::map<std::string, std::string> metadata;  // the entry __metadata__: free text
};

// Throw Error, naming the source and the fault, for anything that the format's own validator would refuse: a header
// above 100 MB, a name given twice, elements that overlap, leave holes or do not have the size of their shape.
// With `left_out`, a tensor that no Tensor can hold (of 8-bit floats, of five dimensions) is passed over where the file
// has others, and the sentence of its error is added to that list.
NamedTensors read_safetensors(const Source& source, std::vector<std::string>* left_out = nullptr);
NamedTensors read_safetensors(Bytes bytes, const std::string& name);
NamedTensors load_safetensors(const std::string& path, std::vector<std::string>* left_out = nullptr);

// Throws Error for a name that is not UTF-8 or is reserved, and when the file cannot be written.
void save_safetensors(const std::string& path, const NamedTensors& value);

}  // namespace causeway
