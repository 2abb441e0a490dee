#include "lua/bind/called.hpp"

#include <algorithm>
#include <cctype>

#include "core/base/text.hpp"
#include "lua/bind/bind.hpp"

namespace causeway::lua {

std::string called_here(lua_State* L, const std::string& name) {
    const int top = lua_gettop(L);
    luaL_checkstack(L, 8, "no room for the names");
    push_causeway(L);
    lua_getfield(L, -1, "_called_here");  // of lua/lib/help.lua
    push_text(L, name);
    const bool found = lua_pcall(L, 1, 1, 0) == LUA_OK && lua_type(L, -1) == LUA_TSTRING;
    std::string page = found ? lua_tostring(L, -1) : "";
    lua_settop(L, top);
    return page;
}

std::string meant_among(lua_State* L, const std::string& name, const std::vector<std::string>& known) {
    const auto is_known = [&](const std::string& word) {
        return std::find(known.begin(), known.end(), word) != known.end();
    };
    const std::string page = called_here(L, name);
    if (is_known(page)) return " (it is called \"" + page + "\" here, see ?" + name + ")";
    std::string small = name;
    for (char& letter : small) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    if (is_known(small)) return " (did you mean \"" + small + "\"?)";
    return did_you_mean(name, known);
}

}  // namespace causeway::lua
