// Around the gradient of gated attention: the division by row sums, and what a decay of all tokens collects.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/kit/layout.hpp"

namespace causeway::gpu {

// to [rows, d + 1] = [from [rows, d], 1], and back.
void append_ones(const float* from, float* to, std::int64_t rows, std::int64_t d, cudaStream_t stream);
void drop_last(const float* from, float* to, std::int64_t rows, std::int64_t d, cudaStream_t stream);

// Row by row, for N' = [P, D] in `x` [rows, d + 1], Y = P / D and G [rows, d] the gradient that arrives at Y (claims
// G8): x becomes [G / D, -<G, Y> / D].
void quotient_gradient(const float* G, float* x, std::int64_t rows, std::int64_t d, cudaStream_t stream);

// dγ_h = Σ_{b,t} dg[b,h,t] / γ_h for g = log γ, dg and g [batch, heads, N], summed in Float64 in a fixed order; `one`:
// one γ serves all heads, and one sum is written.
void sum_gates(const float* dg, const float* g, float* dgamma, std::int64_t batch, std::int64_t heads, std::int64_t N,
               bool one, cudaStream_t stream);

// to [batch, row] = Σ_h from [batch, heads, row], rounded once.
void sum_heads(const void* from, void* to, Type type, std::int64_t batch, std::int64_t heads, std::int64_t row,
               cudaStream_t stream);

}  // namespace causeway::gpu
