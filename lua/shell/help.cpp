#include "core/base/text.hpp"
#include "lua/bind/bind.hpp"
#include "lua/bind/families.hpp"

namespace causeway::lua {
namespace {

// _closest(word, names): the name nearest to the word, "" where none is near.
int closest_name(lua_State* L) {
    const std::string word = check_string(L, 1, "word");
    std::vector<std::string> names;
    for (lua_Integer i = 1; lua_rawgeti(L, 2, i) == LUA_TSTRING; ++i, lua_pop(L, 1))
        names.push_back(lua_tostring(L, -1));
    const std::string name = closest(word, names);
    lua_pushlstring(L, name.data(), name.size());
    return 1;
}

}  // namespace

void open_help(lua_State* L) { add_functions(L, {{"_closest", guarded<closest_name>}}); }

}  // namespace causeway::lua
