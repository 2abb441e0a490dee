// Matrix products over the last two dimensions.
#pragma once

#include "core/tensor/tensor.hpp"

namespace causeway {

// [..., m, k] times [..., k, n] is [..., m, n]; leading dimensions are broadcast. A 1-dimensional operand counts as a
// row on the left, as a column on the right, and its dimension is absent from the result. 2 m k n operations per
// matrix; each entry is summed in the operands' precision, in an order that does not depend on the number of threads.
// Throws Error when the shapes do not fit.
Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace causeway
