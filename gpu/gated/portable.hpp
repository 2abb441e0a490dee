// The gated and delta-rule family for every device, shape and stride: chunks on FMA units, in Float32.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/gated/problem.hpp"

namespace causeway::gpu {

// Bytes of device memory that the call needs besides its tensors: matrices of 32×32 (16×16) of a part of the tokens,
// and, for more than one such part, a state of every head.
std::size_t gated_portable_workspace(const GatedArgs& a);

// The chunkwise form of core/gated/chunkwise.hpp. First what needs no state, in parallel over the chunks: the scores Λ
// ⊙ Q Kᵀ and, for the delta rule, (I + (Λ ⊙ K Kᵀ below the diagonal) diag(β))⁻¹ by substitution; then the chunks one
// after the other, 8 columns of v to a warp, their part of the state in registers. Everything is Float32 sums on FMA
// units; Λ, e and w are products of gates, so gates of -Inf are exact. Launches on `stream` and returns; may be
// captured into a CUDA graph. NaN and Inf reach earlier tokens of the same chunk. Shared memory of a block: 83 kB at dk
// = 128, 138 kB with a gate per channel and dk > 128 (where a device has less, an Error). Throws Error on bad
// arguments.
void gated_portable(const GatedArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu
