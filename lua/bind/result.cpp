#include "lua/bind/result.hpp"

#include "lua/bind/bind.hpp"

namespace causeway::lua {

void make_result(lua_State* L, const char* what, const char* also) {
    const int table = lua_gettop(L);
    push_causeway(L);
    lua_getfield(L, -1, "_result");
    lua_pushvalue(L, table);
    lua_pushstring(L, what);
    lua_pushstring(L, also);
    lua_call(L, 3, 0);
    lua_settop(L, table);
}

}  // namespace causeway::lua
