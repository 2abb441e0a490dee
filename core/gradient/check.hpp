// What the gradients of all calls on whole sequences refuse.
#pragma once

#include "core/base/error.hpp"

namespace causeway::gradient {

// Throws Error where the options, of a call on the CPU or the GPU, ask for states.
template <class Options>
void check_no_states(const Options& o) {
    if (o.checkpoint_every > 0) fail("checkpoint_every: given, but a gradient returns no states");
    if (o.inplace) fail("inplace: true, but a gradient leaves the state as it is");
}

}  // namespace causeway::gradient
