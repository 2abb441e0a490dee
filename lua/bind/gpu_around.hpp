// Short convolutions, norms and gates of tensors on the GPU (around.hpp).
#pragma once

#include "lua/bind/gpu.hpp"

namespace causeway::lua {

// The call of this name, or null.
lua_CFunction gpu_around_call(const char* name);

}  // namespace causeway::lua
