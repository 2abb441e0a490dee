#include "lua/shell/lists.hpp"

#include "lua/bind/bind.hpp"

namespace causeway::lua {

namespace {

// Lua's own goes over 2^10 places in some microseconds, and sorts 2^17 numbers in 40 ms.
constexpr lua_Integer long_way = 1 << 10, long_sort = 1 << 17;

struct Own {
    lua_CFunction insert = nullptr, remove = nullptr, move = nullptr, sort = nullptr;
};
Own& own() {
    static Own functions;
    return functions;
}

// Calls causeway._long_lists[name] with the arguments, of which there are `results` values.
int in_pieces(lua_State* L, const char* name, int results) {
    push_causeway(L);
    lua_getfield(L, -1, "_long_lists");
    lua_getfield(L, -1, name);
    lua_replace(L, -3);
    lua_pop(L, 1);
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, results);
    return results;
}

// How many values a list has; 0 of what is none, or where Lua says so by no whole number.
lua_Integer length(lua_State* L) {
    if (lua_type(L, 1) != LUA_TTABLE) return 0;
    lua_len(L, 1);
    const lua_Integer n = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : 0;
    lua_pop(L, 1);
    return n;
}

// An argument as Lua's own take it, 1e15 and "7" too; 0 of what is no whole number, which they refuse.
lua_Integer integer(lua_State* L, int index) { return lua_tointegerx(L, index, nullptr); }

bool is_integer(lua_State* L, int index) {
    int whole = 0;
    lua_tointegerx(L, index, &whole);
    return whole != 0;
}

// Whether the place that is the second argument is far from the end of the list. As an integer from there on.
bool is_far_from_end(lua_State* L) {
    const lua_Integer at = integer(L, 2);
    if (at < 1 || length(L) - at < long_way) return false;
    lua_pushinteger(L, at);
    lua_replace(L, 2);
    return true;
}

int insert(lua_State* L) {
    return lua_gettop(L) == 3 && is_far_from_end(L) ? in_pieces(L, "insert", 0) : own().insert(L);
}
int remove(lua_State* L) {
    return lua_gettop(L) == 2 && is_far_from_end(L) ? in_pieces(L, "remove", 1) : own().remove(L);
}
int move(lua_State* L) {
    const lua_Integer first = integer(L, 2), last = integer(L, 3), to = integer(L, 4);
    const bool tables = lua_type(L, 1) == LUA_TTABLE && (lua_isnoneornil(L, 5) || lua_type(L, 5) == LUA_TTABLE);
    // From place 1 on no distance is beyond an integer, and Lua says what is wrong with `to`.
    const bool is_long =
        tables && first >= 1 && last - first >= long_way && is_integer(L, 4) && to <= LUA_MAXINTEGER - (last - first);
    if (!is_long) return own().move(L);
    lua_settop(L, 5);
    const auto as_integer = [&](int index, lua_Integer value) {
        lua_pushinteger(L, value);
        lua_replace(L, index);
    };
    as_integer(2, first), as_integer(3, last), as_integer(4, to);
    return in_pieces(L, "move", 1);
}
int sort(lua_State* L) {
    if (lua_isnoneornil(L, 2) && length(L) >= long_sort) {
        lua_settop(L, 1);
        return in_pieces(L, "sort", 0);
    }
    return own().sort(L);
}

}  // namespace

void make_long_lists_stoppable(lua_State* L) {
    struct Replaced {
        const char* name;
        lua_CFunction function;
        lua_CFunction Own::*of_lua;
    };
    lua_getglobal(L, "table");
    for (const Replaced& entry : {Replaced{"insert", insert, &Own::insert}, Replaced{"remove", remove, &Own::remove},
                                  Replaced{"move", move, &Own::move}, Replaced{"sort", sort, &Own::sort}}) {
        lua_getfield(L, -1, entry.name);
        if (const lua_CFunction function = lua_tocfunction(L, -1); function != entry.function)
            own().*entry.of_lua = function;
        lua_pop(L, 1);
        lua_pushcfunction(L, entry.function);
        lua_setfield(L, -2, entry.name);
    }
    lua_pop(L, 1);
}

}  // namespace causeway::lua
