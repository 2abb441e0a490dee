// What other libraries and papers call a thing of this one, for messages about a name that is not known.
#pragma once

#include <lua.hpp>

#include <string>
#include <vector>

namespace causeway::lua {

// `it is called "range" here, see ?linspace`: what help knows of a name that no global has; "" where that is nothing.
std::string meant_here(lua_State* L, const std::string& name);

// ` (it is called "size" here, see ?shape)` where that is one of the known names, else did_you_mean; "" when nothing is
// near.
std::string meant_among(lua_State* L, const std::string& name, const std::vector<std::string>& known);

// The same of a method; where it is none by another name, what does it instead: ` (it is a function here: detach(x))`.
std::string meant_method(lua_State* L, const std::string& name, const std::vector<std::string>& known);

}  // namespace causeway::lua
