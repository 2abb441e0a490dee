// Linear algebra on one matrix. All of it is computed in Float64; the factors are rounded to Float32 unless the matrix
// is Float64. Throws Error for a tensor that is not 2-dimensional and for entries that are not finite. Costs are for m
// × n with k = min(m, n).
#pragma once

#include "core/tensor/tensor.hpp"

namespace causeway {

// A = U diag(S) Vᵀ: U m × k, S k (descending), V n × k. O(m n k).
struct Svd {
    Tensor u, s, v;
};
Svd svd(const Tensor& a);
Tensor svdvals(const Tensor& a);

// A = Q R: Q m × k with orthonormal columns, R k × n upper triangular. O(m n k).
struct Qr {
    Tensor q, r;
};
Qr qr(const Tensor& a);

// Lower triangular L with A = L Lᵀ. Throws Error unless A is symmetric (to rounding) and positive definite. O(n³).
Tensor cholesky(const Tensor& a);

// The inverse. Throws Error for a matrix that is not square or is singular to working precision. O(n³).
Tensor inv(const Tensor& a);

// Eigenvalues. Of a symmetric matrix: `re`, ascending, `symmetric` is true. Otherwise in the order of their real, then
// imaginary parts. Throws Error for a matrix that is not square. O(n³).
struct Eigenvalues {
    Tensor re, im;
    bool symmetric;
};
Eigenvalues eigvals(const Tensor& a);

// The largest singular value, to a relative error of 1e-10. O(m n k), or for k > 512 O(m n) a step of Lanczos'
// iteration.
double opnorm(const Tensor& a);

// Sum of the diagonal.
double tr(const Tensor& a);

}  // namespace causeway
