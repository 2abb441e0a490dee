// Exact gradients of the gated and delta-rule family on tensor cores, BFloat16. gated_hopper/README.md has the formulas
// and who does what.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/gradient/problem.hpp"

namespace causeway::gpu {

// BFloat16, dk <= 128, dv <= 128, rows of dO of whole pieces of 16 bytes, on Hopper.
bool gated_hopper_gradient_takes(const GatedGradArgs& a);

// Bytes of device memory that the call needs besides its tensors: the tiles of a part of the tokens, at most
// 59 MB where that is four chunks of every head, and a state of every head, or where dv has no room for them one for
// each part and one more; where N is no multiple of 64 what the last chunk of every head keeps, and a copy of dstate_in
// where dstate takes its place.
std::size_t gated_hopper_gradient_workspace(const GatedGradArgs& a);

// What gated_gradient computes (gated.hpp), chunks of 64. Operands of products are BFloat16, sums and gates Float32; no
// exponent of a gate is above 0 but those of the scores (gpu/gated/channels). The gradient of a gate is a sum without
// cancellation. dq, dk and dv must overlap neither each other nor any input: what goes between the kernels lies there
// until they are written. Launches on `stream` and returns; may be captured into a CUDA graph. Throws Error on bad
// arguments.
void gated_hopper_gradient(const GatedGradArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu
