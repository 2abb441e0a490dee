// Exact gradients with a gate per head or none, with and without the delta rule, on tensor cores, BFloat16.
// gated_heads/README.md has the formulas and who does what.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/gradient/problem.hpp"

namespace causeway::gpu {

// BFloat16 with at most a gate per head, a head of q for each of k, dk <= 128, dv <= 128, and tensors that TMA reaches,
// on Hopper.
bool gated_heads_gradient_takes(const GatedGradArgs& a);

// Whether it adds up dq and dk over the heads of a batch entry, which share a head of q and one of k (dq_sum, dk_sum).
bool gated_heads_gradient_adds(const GatedGradArgs& a);

// Bytes of device memory that the call needs besides its tensors: the states of a part of the tokens and their
// gradients, for two parts, and the state of every head before each part, unless dv has room for it. Without β, with
// dk = dv = 128, of these half of the gradients of states alone; in each case the gates' factors and a state or two of
// every head besides.
std::size_t gated_heads_gradient_workspace(const GatedGradArgs& a);

// What gated_gradient computes (gated.hpp), chunks of 64. Operands of products are BFloat16, sums and gates Float32; no
// exponent of a gate is above 0, and the gradient of a gate is a sum without cancellation. dq, dk and dv must overlap
// neither each other nor any input: what goes between the kernels lies there until they are written. Launches on
// `stream` and returns; may be captured into a CUDA graph. Throws Error on bad arguments.
void gated_heads_gradient(const GatedGradArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu
