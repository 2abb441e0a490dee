// Elements as files hold them, and their way into a tensor. Shared by the readers of .npy and .safetensors.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/base/error.hpp"
#include "core/base/file.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway {

// The error of an array that is whole and that no Tensor can hold: elements of another type, more than four dimensions,
// an integer that Float64 does not hold exactly.
struct FitsNoTensor : IoError {
    using IoError::IoError;
};

// What an element is in a file. Integers and truth values become numbers of the smallest type that holds each of them
// exactly: Float32 up to 16 bits, Float64 beyond.
enum class Stored { boolean, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64 };

std::size_t size_of(Stored) noexcept;    // bytes of one element in the file
DType dtype_of_stored(Stored) noexcept;  // element type of the tensor it becomes

// How a file holds the elements of a tensor.
struct Layout {
    Stored type = Stored::f32;
    bool big_endian = false;
    bool column_major = false;  // first index fastest ("Fortran order"); the tensor is row-major all the same
    Shape shape;
};

// The dimensions as a Shape, once they are known to need exactly `bytes` bytes: a header that promises more than the
// file holds never reaches an allocation. Throws Error, starting with `where`, for more than four dimensions
// (FitsNoTensor) and for a size that does not fit. `type` is the file's own name for the element type.
Shape checked_shape(std::span<const std::uint64_t> dims, Stored stored, const std::string& type, std::uint64_t bytes,
                    const std::string& where);

// The elements that begin at byte `offset` of the source, O(size), beside the tensor at most 1 MiB. Throws
// FitsNoTensor, starting with `where`, for a 64-bit integer that Float64 does not hold exactly.
Tensor read_elements(const Source& source, std::uint64_t offset, const Layout& layout, const std::string& where);

}  // namespace causeway
