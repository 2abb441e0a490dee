#include "lua/bind/notes.hpp"

#include "lua/bind/bind.hpp"

namespace causeway::lua {

bool noted(lua_State* L, const char* key) {
    const bool given = lua_getfield(L, LUA_REGISTRYINDEX, key) != LUA_TNIL;
    lua_pop(L, 1);
    return given;
}

void forget_note(lua_State* L, const char* key) {
    lua_pushnil(L);
    lua_setfield(L, LUA_REGISTRYINDEX, key);
}

void note(lua_State* L, const std::string& text) {
    push_causeway(L);
    lua_getfield(L, -1, "_note");
    push_text(L, text);
    lua_call(L, 1, 0);
    lua_pop(L, 1);
}

void note_once(lua_State* L, const char* key, const std::string& text) {
    if (noted(L, key)) return;
    lua_pushboolean(L, true);
    lua_setfield(L, LUA_REGISTRYINDEX, key);
    note(L, text);
}

}  // namespace causeway::lua
