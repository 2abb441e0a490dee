// Exact gradients of the gated and delta-rule family on the GPU: from operands of 16 bits where gated_lightning.hpp,
// gated_heads.hpp or gated_hopper.hpp takes a call, otherwise in Float32 (gated_chunks.hpp), from operands as sums of
// two TF32.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/gradient/problem.hpp"

namespace causeway::gpu {

// Bytes of device memory that the call needs besides its tensors, which are those of the call already. In Float32 the
// tokens are taken in parts of L, as many as have room in 58 MB (at least two chunks), with chunks of C = 32 (16 with a
// gate per channel or dk > 128). For each head: two states for each chunk of one part, L·(2·dv + (group + 3)·C + 2)
// Float32, and where there are several parts one state; where dv has no room for the states before parts, one for each
// part and one more, and L is at least about √(16 N).
std::size_t gated_gradient_workspace(const GatedGradArgs& a);

// The chunkwise backward pass of core/gradient/chunkwise.hpp, with its formulas. Forwards, only the states between the
// parts are kept. Then part by part, last one first: the states before its chunks are computed again; the gradient of
// the state goes through its chunks backwards and leaves its value after each chunk; from both, all chunks are finished
// in parallel. Sums in Float32 and in a fixed order, but for some of two numbers: a call gives the same bits again.
// Gradients of gates are sums without cancellation; gates of -Inf have the gradient 0. In Float32 at most 116752 bytes
// of shared memory to a block, 192588 with a gate per channel and dk > 128; where a device has less, FMA units, with at
// most 98380 (or an Error).
// Launches on `stream` and returns; may be captured into a CUDA graph. Throws Error on bad arguments.
void gated_gradient(const GatedGradArgs& a, cudaStream_t stream);

// Whether the call also adds up dq and dk over heads that share a head of q and of k; dq_sum and dk_sum may be null
// still. Where they are given, their rows begin at multiples of 16 bytes.
bool gated_gradient_adds(const GatedGradArgs& a);

// Whether the call takes g, beta, dg and dbeta whose heads are gate_step tokens apart and not N: of a piece of a longer
// sequence.
bool gated_gradient_takes_gate_step(const GatedGradArgs& a);

// Whether the call also gives the state after the last token, a.after.
bool gated_gradient_has_state(const GatedGradArgs& a);

}  // namespace causeway::gpu
