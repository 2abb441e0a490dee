// Reductions: of all elements to a number, or along one dimension (counted from 0), which is kept with length 1.
// Sums are pairwise and in double precision, in an order that depends on the shape alone: the error grows as
// log n, and the result does not depend on the number of threads. One pass over the elements unless noted.
#pragma once

#include "core/tensor/tensor.hpp"

namespace causeway {

// deviation: the standard deviation with n - 1 (two passes; NaN for n < 2). The mean of nothing is NaN. maximum and
// minimum are NaN where an element is; of nothing they throw Error.
enum class Reduction { sum, prod, maximum, minimum, mean, deviation };

// Of all elements; along `dim`, in the element type of the tensor (Float32 for Float16 and BFloat16).
double reduce(Reduction, const Tensor&);
Tensor reduce(Reduction, const Tensor&, int dim);

// Position (from 0) of the first greatest or least element, in row-major order; NaN counts as both, as in Julia.
// Along a dimension: a Float64 tensor of positions from 0. Throws Error without elements.
enum class Extreme { maximum, minimum };
Index find(Extreme, const Tensor&);
Tensor find(Extreme, const Tensor&, int dim);

// Square root of the sum of squares, without overflow or underflow on the way.
double norm(const Tensor&);

// Sum of the products of corresponding elements. Throws Error unless the shapes are equal.
double dot(const Tensor& a, const Tensor& b);

// Whether any element, or every one, is not zero. NaN is not zero.
bool any(const Tensor&);
bool all(const Tensor&);

// The point below which a share p of the sorted elements lies, interpolated linearly between neighbours (Hyndman and
// Fan's type 7, the default of NumPy, R and Julia); p = 1/2 is the median. NaN where an element is NaN. Linear time.
// Throws Error unless 0 <= p <= 1, and without elements.
double quantile(const Tensor&, double p);
Tensor quantile(const Tensor&, double p, int dim);

// Running sums, products, maxima or minima along a dimension, accumulated in double precision; the last two are NaN
// from the first NaN on. `op` is one of these four.
Tensor cumulate(Reduction op, const Tensor&, int dim);

// exp(x) / sum of exp(x) over the last dimension, never with the exponential of a positive number.
Tensor softmax(const Tensor&);

}  // namespace causeway
