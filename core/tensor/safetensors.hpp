// .safetensors: named tensors, in the format of the safetensors library: the length of the header (8 bytes), the
// header (JSON: name -> dtype, shape, data_offsets), the elements.
// Read: BOOL, I8-I64, U8-U64, F16, BF16, F32, F64, up to four dimensions. Written: F16, BF16, F32, F64, byte for byte
// as the library writes them. A part of a tensor is read without the rest.
#pragma once

#include <functional>
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

// Of a tensor the positions [first, first + n) of dimension dim, which counts from 0.
struct TensorPart {
    int dim = 0;
    Index first = 0, n = 0;
};

// A tensor along its dimension dim: rows of `length` positions of `width` bytes each, one after the other in memory.
struct Along {
    Index rows = 1, length = 0, width = 0;

    Along(const Shape& shape, int dim, std::size_t element_bytes)
        : length(shape[dim]), width(static_cast<Index>(element_bytes)) {
        for (int i = 0; i < dim; ++i) rows *= shape[i];
        for (int i = dim + 1; i < shape.ndim(); ++i) width *= shape[i];
    }
};

// What of a file is read.
struct Wanted {
    std::vector<std::string> names;  // of tensors; empty: of all
    std::function<TensorPart(const Shape&, const std::string&)>
        part{};  // of the tensor of this shape and name; none: all
};

// The same of what is wanted alone: no other elements are read, but for gaps of less than a page between them. The
// header is checked whole. Throw Error, naming the tensor, for one that the file does not have, for a part that its
// tensor does not have, and what `part` throws.
NamedTensors read_safetensors(const Source& source, const Wanted& wanted, std::vector<std::string>* left_out = nullptr);
NamedTensors load_safetensors(const std::string& path, const Wanted& wanted,
                              std::vector<std::string>* left_out = nullptr);

// Throws Error for a name that is not UTF-8 or is reserved, and when the file cannot be written.
void save_safetensors(const std::string& path, const NamedTensors& value);

// Where everything stands in a file: for those who write it together (core/sharded/files.hpp).
struct FilePlan {
    std::string start;                           // the length of the header, and the header
    std::vector<std::string> order;              // of the tensors
    std::map<std::string, std::uint64_t> begin;  // of a tensor's elements, counted from the end of the header
};

// A tensor of a file that is to be.
struct Planned {
    DType dtype = DType::f32;
    Shape shape;
};

// Throws Error as save_safetensors does; `path` is what messages begin with.
FilePlan plan_safetensors(const std::string& path, const std::map<std::string, Planned>& tensors,
                          const std::map<std::string, std::string>& metadata);

}  // namespace causeway
