// Exact gradients without gates and without the delta rule on tensor cores, BFloat16, by Lightning Attention-2
// (lightning.hpp).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/gradient/problem.hpp"

namespace causeway::gpu {

// No gates, no β, no state before the first token, nothing that arrives at the last, heads that share nothing, at most
// 256 of them, dk and dv <= 128, tensors that TMA reaches, on Hopper. Not Float16: states are rounded to the type of
// the inputs, and sums of gradients are soon above 65504.
bool gated_lightning_gradient_takes(const GatedGradArgs& a);

// Bytes of device memory that the call needs besides its tensors: states of the splits of all heads.
std::size_t gated_lightning_gradient_workspace(const GatedGradArgs& a);

// What gated_gradient computes (gated.hpp). Operands of products are BFloat16, states and sums Float32; a scale
// multiplies the rounded results, in passes of their own. Launches on `stream` and returns; may be captured into a CUDA
// graph. Throws Error on bad arguments.
void gated_lightning_gradient(const GatedGradArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu
