// The general rule by its definition, one token after the other.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/gated/general/problem.hpp"

namespace causeway::gpu {

// Bytes of device memory: 0, or the list of packed sequences.
std::size_t general_recurrent_workspace(const GeneralArgs& a, const Sequences& sequences = {});

// The recurrence of problem.hpp in Float32 on FMA units: 8 columns of v to a warp, their part of the state in its
// registers. N·dk·dv multiply-adds for what w reads, for what is taken out, for what is added, for the factors and for
// each query; every token waits for the one before it. With sequences (batch 1) each of them starts from its own state.
// Launches on `stream` and returns; may be captured into a CUDA graph. Throws Error on bad arguments.
void general_recurrent(const GeneralArgs& a, const Sequences& sequences, cudaStream_t stream);

}  // namespace causeway::gpu
