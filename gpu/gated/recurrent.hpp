// The gated and delta-rule family by its definition, one token after the other.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/gated/problem.hpp"

namespace causeway::gpu {

std::size_t gated_recurrent_workspace(const GatedArgs& a);  // 0

// The recurrence of problem.hpp in Float32 on FMA units: 8 columns of v to a warp, their part of the state in its
// registers, no word between warps. N·dk·dv multiply-adds for what is written, for each query and for what the delta
// rule reads; every token waits for the one before it. Launches on `stream` and returns; may be captured into a CUDA
// graph. Throws Error on bad arguments.
void gated_recurrent(const GatedArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu
