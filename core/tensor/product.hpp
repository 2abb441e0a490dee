// Products of matrices, compiled once: a file with a product of its own compiles all of Eigen's kernels, five seconds
// for each type and pair of layouts.
#pragma once

#include "core/base/memory.hpp"

namespace causeway {

// Y = A X, or Y += A X where `add`, for row-major matrices at `y`, `a`, `x` whose rows begin `_stride` elements after
// each other; `a` and `x` may hold the transposes. Y: rows × cols, A: rows × depth. For float and double.
template <class T, bool a_transposed = false, bool x_transposed = false>
void matrix_product(T* y, Index y_stride, const T* a, Index a_stride, const T* x, Index x_stride, Index rows,
                    Index cols, Index depth, bool add);

}  // namespace causeway
