// The gated and delta-rule family for every shape, stride and type: chunks in Float32 on tensor cores, operands as sums
// of two TF32.
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
// after the other, 16 columns of v to four warps, their part of the state in registers. A product of two numbers is at
// most 1.2e-6 of it wrong, sums are Float32; Λ, e and w are products of gates, so gates of -Inf are exact. NaN and Inf
// stay behind their token: a block where one has come by goes once more, on FMA units. Launches on `stream` and
// returns; may be captured into a CUDA graph. Shared memory of a block: 103 kB at dk = 128, 181 kB with a gate per
// channel and dk > 128; where a device has less, FMA units, with 83 and 138 kB (or an Error). Throws Error on bad
// arguments.
void gated_portable(const GatedArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu
