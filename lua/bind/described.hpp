// What the pages of help are made of (lua/lib/pages.lua), out of the registries of core.
#pragma once

#include "lua/bind/bind.hpp"

namespace causeway::lua {

// Pushes a table with the texts of an entry of a registry; of those that not all registries have, what it has.
template <class Described>
void push_described(lua_State* L, const Described& entry) {
    lua_newtable(L);
    set_field(L, "name", entry.name);
    set_field(L, "source", entry.source);
    if constexpr (requires { entry.formula; }) set_field(L, "formula", entry.formula);
    set_field(L, "text", entry.text);
    set_field(L, "use", entry.use);
    if constexpr (requires { entry.time; }) set_field(L, "time", entry.time);
    if constexpr (requires { entry.memory; }) set_field(L, "memory", entry.memory);
}

}  // namespace causeway::lua
