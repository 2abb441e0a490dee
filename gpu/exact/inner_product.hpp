// The inner-product form on the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/exact/problem.hpp"

namespace causeway::gpu {

// Bytes of device memory that the call needs besides its tensors: a tile of scores of every head in work and its rows,
// some 210 MB for 32 heads of r = d = 128, whatever N.
std::size_t inner_product_workspace(const CausalArgs& a);

// o_i = Σ_{j<=i} γ^(i-j) <q_i, k_j> v_j, every score anew, for a tile of rows i at a time: tile after tile of the
// columns j <= i, by cuBLAS's batched products. O(N²) time, about N²/2 (r + d) multiply-adds a head; nothing of all
// scores is kept. Precision as block_based. Carries no state: throws Error where a.state is given. r, d <= 256.
// Launches on `stream` and returns; reads a.gamma before it does. tpu §3.1 (core/exact/inner_product.hpp).
void inner_product(const CausalArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu
