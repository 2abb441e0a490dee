// Exact gradients without gates and without the delta rule on tensor cores, 16-bit elements, by Lightning Attention-2
// (lightning.hpp).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/gradient/problem.hpp"

namespace causeway::gpu {

// No gates, no β, no state before the first token, nothing that arrives at the last, heads that share nothing, dk and
// dv <= 128, tensors that TMA reaches, on Hopper. Float16 with a scale of 1 alone, as what is scaled is rounded first.
bool gated_lightning_gradient_takes(const GatedGradArgs& a);

// Bytes of device memory that the call needs besides its tensors: states of the splits of all heads.
std::size_t gated_lightning_gradient_workspace(const GatedGradArgs& a);

// What gated_gradient computes (gated.hpp). Operands of products have the type of the inputs, states and sums are
// Float32. Launches on `stream` and returns; may be captured into a CUDA graph. Throws Error on bad arguments.
void gated_lightning_gradient(const GatedGradArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu
