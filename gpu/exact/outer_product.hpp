// The outer-product forms on the GPU: all prefix states at once, and those of one block at a time.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/exact/problem.hpp"

namespace causeway::gpu {

// Bytes of device memory that the call needs besides its tensors: 4Nrd for the states of at least one head (2.1 GB at N
// = 32768, r = d = 128), of more heads together up to 1 GB.
std::size_t outer_product_workspace(const CausalArgs& a);

// S_t = γ S_{t-1} + k_tᵀ v_t for every token by an inclusive scan over segments (the sum of each, their scan, then each
// segment from the state before it), all states in memory; then o_t = q_t S_t. Bound by writing and reading the states:
// 8 N r d bytes a head. FMA units in Float32. Carries a state. r, d <= 256. Launches on `stream` and returns; reads
// a.gamma before it does. Throws Error on bad arguments. tpu §3.2 (core/exact/outer_product.hpp).
void outer_product(const CausalArgs& a, cudaStream_t stream);

// Bytes of device memory that the call needs besides its tensors: 4brd for the states of a block of at least one head,
// of more heads together up to 512 MB, and the carried state.
std::size_t outer_product_blockwise_workspace(const CausalArgs& a);

// The same for a.block tokens, by itself 128, after the other: the prefix states of one block on top of the carry,
// outputs from them; the last is the next carry. Short blocks stay in the cache, but are launched one after the other.
// tpu §3.3.
void outer_product_blockwise(const CausalArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu
