// The functions of `table` that go over as many places as they are told.
#pragma once

#include <lua.hpp>

namespace causeway::lua {

// table.insert, remove, move and sort hear Ctrl-C and time limits where a list is long: Lua's own hear nothing until
// they are done. Of short lists, and of what is none of their calls, they are Lua's own.
void make_long_lists_stoppable(lua_State* L);

}  // namespace causeway::lua
