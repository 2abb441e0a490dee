// One token of the gated and delta-rule family: the state is read once and written once.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/gated/problem.hpp"

namespace causeway::gpu {

std::size_t gated_step_workspace(const GatedArgs& a);  // 0

// The recurrence for N = 1, advancing a.state, which must be there. A block has 64 columns of the state of a head (32
// where dk > 128, or where 64 would leave multiprocessors idle) in registers between reading and writing; S'ᵀ k and S'ᵀ
// q are summed in the same pass, as o = scale · (S'ᵀ q + (k · q) u). 8·dk·dv bytes of memory traffic per head of state.
// Launches on `stream` and returns; may be captured into a CUDA graph. Throws Error on bad arguments.
void gated_step(const GatedArgs& a, cudaStream_t stream);

// The same with 32 columns to a block where `narrow`: for the bench and the tests.
void gated_step_shaped(const GatedArgs& a, bool narrow, cudaStream_t stream);

}  // namespace causeway::gpu
