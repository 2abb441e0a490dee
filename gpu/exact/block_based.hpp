// Block-based on the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/exact/problem.hpp"

namespace causeway::gpu {

// Bytes of device memory that the call needs besides its tensors: some 130 MB for the blocks in work, whatever N; for
// longer blocks at least b² scalars.
std::size_t block_based_workspace(const CausalArgs& a);

// For blocks of a.block tokens, by itself 128, as many at a time as the workspace takes, of all heads together by
// cuBLAS's batched products:
//   U_[i] = γ^n U_[i-1] + (diag(γ^(n-1-p)) K_[i])ᵀ V_[i],  O_[i] = (Q_[i] K_[i]ᵀ ⊙ M) V_[i] + diag(γ^(p+1)) Q_[i]
//   U_[i-1].
// Float32 products of Float32 inputs; with precision tf32, and for the 16-bit types unless precision is exact, products
// of operands of 11 bits on tensor cores. Sums, O and U are Float32. r, d <= 256. Launches on `stream` and returns;
// reads a.gamma before it does. Throws Error on bad arguments. leet eq. 12-13, Algorithm 2
// (core/exact/block_based.hpp).
void block_based(const CausalArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu
