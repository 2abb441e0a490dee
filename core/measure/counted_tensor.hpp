// Tensors in and out of the counting scalar, and the counts of one call.
#pragma once

#include <utility>

#include "core/measure/counting.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway {

// The elements of A, in row-major order.
inline Buffer<Counted> to_counted(const Tensor& A) {
    Buffer<Counted> out(A.size());
    for (Index i = 0; i < A.size(); ++i) out[i] = Counted(A.get(i));
    return out;
}

// The tensor that has these elements.
inline Tensor from_counted(const Buffer<Counted>& values, DType type, const Shape& shape) {
    Tensor out(type, shape);
    for (Index i = 0; i < values.size(); ++i) out.set(i, values[i].value);
    return out;
}

// While alive, `counted` holds the operations since its beginning; then the counts of before, however it ends.
struct CountsOfThisCall {
    OperationCount before = std::exchange(counted, {});
    CountsOfThisCall() = default;
    CountsOfThisCall(const CountsOfThisCall&) = delete;
    CountsOfThisCall& operator=(const CountsOfThisCall&) = delete;
    ~CountsOfThisCall() { counted = before; }
};

}  // namespace causeway
