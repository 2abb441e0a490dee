// Between arrays of the C interface and tensors.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/c/causeway.h"
#include "core/tensor/tensor.hpp"

namespace causeway::c {

// The array as a tensor: a view of it where it is contiguous, else a copy. Throws Error naming the argument for what is
// no array. O(1), or O(elements).
Tensor read(const char* name, const causeway_tensor* array);

// Its type and shape alone, as a tensor without elements. Throws Error for what is no array.
Tensor form_of(const char* name, const causeway_tensor& array);

// Whether its elements lie row by row, at an address of its type.
bool is_contiguous(const causeway_tensor& array);

// What causeway_release gives back: the memory that an array of the library's lies in.
struct Owned {
    virtual ~Owned() = default;
};

// A contiguous array over memory that `owner` holds.
causeway_tensor array_of(DType type, const Shape& shape, void* data, Owned* owner);

// Nothing where there is no array.
std::optional<Tensor> read_optional(const char* name, const causeway_tensor* array);

// Throws Error where several elements that are to be written have one place: a stride of 0.
void check_places(const char* name, const causeway_tensor& array);

// Throws Error where the caller's array is to be written, and has not the type and shape of the result, which `form` is
// or has (Tensor::shaped), or no place for each element; nothing where none is wanted.
void check_output(const char* name, const Tensor& form, const causeway_tensor* array);

// Writes A through the strides of the array, which has been read and has A's type and shape.
void write(const Tensor& A, const causeway_tensor& array) noexcept;

// Results on their way to the caller. All are checked, and have what memory they need, before any is delivered.
class Outputs {
public:
    // Throws Error where the caller's array does not fit; does nothing where none is wanted.
    void add(const char* name, const Tensor& result, causeway_tensor* array);
    void add(const char* name, const std::optional<Tensor>& result, causeway_tensor* array);
    void deliver() noexcept;

private:
    struct Result : Owned {
        explicit Result(Tensor given) : tensor(std::move(given)) {}
        Tensor tensor;
    };
    struct Output {
        std::unique_ptr<Result> result;
        causeway_tensor* array;
    };
    std::vector<Output> outputs_;
};

}  // namespace causeway::c
