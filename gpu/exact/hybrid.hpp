// The hybrid form on the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/exact/problem.hpp"

namespace causeway::gpu {

// Bytes of device memory that the call needs besides its tensors: rd + b² scalars a head and its rows, of at least one
// block of each head in work; where that is little, of more blocks together, up to some 130 MB.
std::size_t hybrid_workspace(const CausalArgs& a);

// For blocks of a.block tokens, by itself 128, one after the other, with what is carried from block to block in C, all
// heads together by cuBLAS's batched products:
//   A = M ⊙ (Q_[i] K_[i]ᵀ),  Y_[i] = A V_[i] + diag(γ^(p+1)) Q_[i] C,  C ← γ^n C + (diag(γ^(n-1-p)) K_[i])ᵀ V_[i].
// Squares of scores, as printed; those of several blocks at a time, since they do not look at C. N/b steps of two
// products and a copy of C: short blocks are slow. Precision as block_based. r, d <= 256. Launches on `stream` and
// returns; reads a.gamma before it does. Throws Error on bad arguments. tpu §3.4, Algorithm 1, repaired as in
// core/exact/hybrid.hpp.
void hybrid(const CausalArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu
