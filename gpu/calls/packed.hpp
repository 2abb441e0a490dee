// What the gradient of causal linear attention has on the CPU and not here: packed sequences, and states in a pool.
#pragma once

#include <vector>

#include "core/base/error.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway::gpu {

// Throws Error where one of the two is given.
inline void refuse_packed(const std::vector<Index>& cu_seqlens, const std::vector<Index>& state_indices) {
    if (!cu_seqlens.empty())
        fail("cu_seqlens: given, but this gradient on the GPU takes one sequence; that of linear_attention takes them");
    if (!state_indices.empty())
        fail("state_indices: given, but this gradient on the GPU takes the states of the sequences");
}

}  // namespace causeway::gpu
