// What normalised attention divides by: the row sums of B Cᵀ ⊙ M, and whether they can carry it.
#pragma once

#include <vector>

#include "core/tensor/tensor.hpp"

namespace causeway::exact {

// Rows whose weights sum to 0 or less, or cancel: their sum is below 1e-3 of what the weights could sum to by size,
// |b_i| · Σ_j γ^(i-j) |c_j|. Divided by such a sum, an output says little of V. Rows with NaN or Inf do not count.
struct CancelledRows {
    Index count = 0;
    Index head = 0, token = 0;  // of the first one, from 0; the head of its batch·heads
};

// B, C and the V of the call, of which only the shape is read; decay as in the call. From an empty state. Throws Error
// as the call does for shapes and decays. N r multiplications and additions a head and sum, 2/d of what attention
// takes.
CancelledRows cancelled_rows(const Tensor& B, const Tensor& C, const Tensor& V, const std::vector<double>& decay);

}  // namespace causeway::exact
