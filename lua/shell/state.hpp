// One interpreter: Lua, its standard library, and everything of causeway.
#pragma once

struct lua_State;

namespace causeway::lua {

// How the names of chunks begin that travel inside the program: "=causeway:lua/lib/plot.lua". No file has such a name.
inline constexpr const char* embedded_chunk = "=causeway:";

// Throws Error when a part that travels inside the program does not load. Close with lua_close.
lua_State* new_state();

}  // namespace causeway::lua
