// Tables of results that say which fields they have where one is asked for that they have not.
#pragma once

#include <lua.hpp>

namespace causeway::lua {

// Lets the table at the top of the stack, in messages `what` ("a cost"), refuse other fields than its own and those in
// `also`, names between blanks, which only some such tables have. print shows it as the prompt does
// (lua/lib/absent.lua).
void make_result(lua_State* L, const char* what, const char* also = "");

}  // namespace causeway::lua
