// Vanilla on the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/exact/problem.hpp"

namespace causeway::gpu {

// Bytes of device memory that the call needs besides its tensors: 4N² for the masked matrix of at least one head, more
// heads together where that is little.
std::size_t vanilla_workspace(const CausalArgs& a);

// A = Q Kᵀ ⊙ M, O = A V, dense, by cuBLAS, a few heads at a time. O(N²) time and memory. Precision as block_based.
// Carries no state: throws Error where a.state is given. r, d <= 256. Launches on `stream` and returns; reads a.gamma
// before it does. 000 eq. 5, leet eq. 4.
void vanilla(const CausalArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu
