// What other libraries and papers call a thing of this one, for messages about a name that is not known.
#pragma once

#include <lua.hpp>

#include <string>
#include <vector>

namespace causeway::lua {

// The page to which the names of help lead from this one; "" where it is none of them.
std::string called_here(lua_State* L, const std::string& name);

// ` (it is called "size" here, see ?shape)` where that is one of the known names, else did_you_mean; "" when nothing is
// near.
std::string meant_among(lua_State* L, const std::string& name, const std::vector<std::string>& known);

}  // namespace causeway::lua
