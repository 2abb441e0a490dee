// One interpreter: Lua, its standard library, and everything of causeway.
#pragma once

struct lua_State;

namespace causeway::lua {

// Throws Error when a part that travels inside the program does not load. Close with lua_close.
lua_State* new_state();

}  // namespace causeway::lua
