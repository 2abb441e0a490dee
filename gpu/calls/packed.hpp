// What calls on the CPU have and some on GPUs do not: states in a pool, in place, or kept on the way, and outputs that
// nothing after their token changes.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/calls/sequences.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway::gpu {

// Throw Error where what they are named after is given; `call` says in the sentence who does not take it.
inline void refuse_pool(const std::vector<Index>& state_indices, const char* call) {
    if (!state_indices.empty()) fail("state_indices: given, but ", call, " takes the states of the sequences");
}
inline void refuse_in_place(bool inplace, const char* call) {
    if (inplace) fail("inplace: true, expected false: ", call, " returns its states");
}
inline void refuse_checkpoints(Index every, const char* call) {
    if (every > 0) fail("checkpoint_every: given, but ", call, " returns the last state alone");
}

// Throws Error for what is no promise too.
inline void refuse_prefix(const std::string& deterministic, const char* call) {
    if (deterministic.empty()) return;
    calls::check_determinism(deterministic);
    if (deterministic == "prefix")
        fail("deterministic: \"prefix\", which ", call, " does not keep, expected \"run\" or \"alone\"");
}

}  // namespace causeway::gpu
