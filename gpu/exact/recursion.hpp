// Recursion on the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/exact/problem.hpp"

namespace causeway::gpu {

// Bytes of device memory that the call needs besides its tensors: outputs of a few heads in Float32, and some 130 MB
// for the nodes in work.
std::size_t recursion_workspace(const CausalArgs& a);

// HyperAttention's halving of the causal mask, level by level, each level for all its nodes and several heads together
// by cuBLAS's batched products. Leaves are a.block tokens, by themselves 128, the sequence counts as padded to leaves;
// a level of halves of m tokens adds to the second half of every node
//   O2 += diag(W1) Q2 (diag(W2) K1)ᵀ V1,  W1 = [1, γ, γ², ...], W2 = [γ^m, ..., γ², γ].
// O(N log N). Precision as block_based. Carries no state: throws Error where a.state is given. r, d <= 256. Launches on
// `stream` and returns; reads a.gamma before it does. leet Algorithms 3 and 4 (core/exact/recursion.hpp).
void recursion(const CausalArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu
