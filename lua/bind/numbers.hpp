// Numbers that Lua gives as a list or as a Tensor.
#pragma once

#include "lua/bind/bind.hpp"

namespace causeway::lua {

// The numbers of a Lua array or of a Tensor of any shape, in order. Throws Error naming the argument.
Buffer<double> check_numbers(lua_State* L, int index, const char* argument);

}  // namespace causeway::lua
