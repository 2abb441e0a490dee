// Row-based on the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/exact/problem.hpp"

namespace causeway::gpu {

// Bytes of device memory that the call needs besides its tensors: none.
std::size_t row_based_workspace(const CausalArgs& a);

// U_i = γ U_{i-1} + k_iᵀ v_i, then o_i = q_i U_i, token by token on FMA units, in Float32; U stays in registers, 32
// columns of a head to a block of threads, and the decay multiplies it at every token. 2Nrd multiply-adds (+ Nrd
// multiplies with decay) a head. r, d <= 256. Launches on `stream` and returns; reads a.gamma before it does. Throws
// Error on bad arguments. leet eq. 7-8, Algorithm 1 (core/exact/row_based.hpp).
void row_based(const CausalArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu
