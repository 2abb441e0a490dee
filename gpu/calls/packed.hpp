// What calls on the CPU have and the kernels here do not: packed sequences, and states in a pool.
#pragma once

#include <vector>

#include "core/base/error.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway::gpu {

// Throws Error where one of the two is given.
inline void refuse_packed(const std::vector<Index>& cu_seqlens, const std::vector<Index>& state_indices = {}) {
    if (!cu_seqlens.empty()) fail("cu_seqlens: given, but on the GPU sequences are not packed");
    if (!state_indices.empty()) fail("state_indices: given, but on the GPU states are in no pool");
}

// Throws Error where final states are to be written to those of the start.
inline void refuse_in_place(bool inplace) {
    if (inplace) fail("inplace: true, expected false: on the GPU a call on a whole text returns its states");
}

}  // namespace causeway::gpu
