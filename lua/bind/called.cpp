#include "lua/bind/called.hpp"

#include <algorithm>

#include "core/base/text.hpp"
#include "lua/bind/bind.hpp"

namespace causeway::lua {

namespace {

// What a function of lua/lib/help.lua says of a name beside the known ones; "" where it says nothing.
std::string told_by(lua_State* L, const char* function, const std::string& name,
                    const std::vector<std::string>& known) {
    const int top = lua_gettop(L);
    luaL_checkstack(L, 8, "no room for the names");
    push_causeway(L);
    lua_getfield(L, -1, function);
    push_text(L, name);
    lua_createtable(L, 0, static_cast<int>(known.size()));
    for (const std::string& one : known) {
        lua_pushboolean(L, true);
        lua_setfield(L, -2, one.c_str());
    }
    const bool told = lua_pcall(L, 2, 1, 0) == LUA_OK && lua_type(L, -1) == LUA_TSTRING;
    std::string text = told ? lua_tostring(L, -1) : "";
    lua_settop(L, top);
    return text;
}

std::string in_brackets(const std::string& text) { return text.empty() ? "" : " (" + text + ")"; }

// The known name that this one is but for capital letters, or "".
std::string in_small_letters(const std::string& name, const std::vector<std::string>& known) {
    std::string small = in_lower_case(name);
    return std::find(known.begin(), known.end(), small) != known.end() ? small : "";
}

}  // namespace

std::string meant_here(lua_State* L, const std::string& name) { return told_by(L, "_meant_here", name, {}); }

std::string meant_among(lua_State* L, const std::string& name, const std::vector<std::string>& known) {
    const std::string here = told_by(L, "_known_here", name, known);
    if (!here.empty()) return in_brackets(here);
    const std::string small = in_small_letters(name, known);
    return small.empty() ? did_you_mean(name, known) : in_brackets("did you mean \"" + small + "\"?");
}

std::string meant_method(lua_State* L, const std::string& name, const std::vector<std::string>& known) {
    const std::string elsewhere = told_by(L, "_no_method", name, known);
    if (!elsewhere.empty()) return in_brackets(elsewhere);
    return name.size() < 3 ? "" : meant_among(L, name, known);  // of one or two letters everything is near
}

}  // namespace causeway::lua
