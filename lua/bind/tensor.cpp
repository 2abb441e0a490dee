// The type Tensor in Lua: its metatable. The functions are in tensor_*.cpp beside it.
#include <algorithm>

#include "core/tensor/format.hpp"
#include "core/tensor/rearrange.hpp"  // identical
#include "lua/bind/families.hpp"
#include "lua/bind/tensor_args.hpp"

namespace causeway::lua {
namespace {

constexpr const char* methods_field = "__methods";  // in the metatable: name -> function

int collect(lua_State* L) {
    // A finalizer of the user's may still see the tensor afterwards: leave a valid, empty one.
    static const Tensor& empty = *new Tensor();
    *static_cast<Tensor*>(luaL_checkudata(L, 1, "causeway.Tensor")) = empty;
    return 0;
}

// Columns and rows of the display, where it has a size.
std::pair<int, int> display_size(lua_State* L) {
    int columns = 80, rows = 24;
    push_causeway(L);
    if (lua_getfield(L, -1, "terminal_size") == LUA_TFUNCTION) {
        lua_call(L, 0, 2);
        if (lua_isinteger(L, -2) && lua_isinteger(L, -1)) {
            columns = static_cast<int>(std::clamp<lua_Integer>(lua_tointeger(L, -2), 20, 10000));
            rows = static_cast<int>(std::clamp<lua_Integer>(lua_tointeger(L, -1), 8, 10000));
        }
        lua_pop(L, 1);
    }
    lua_pop(L, 2);
    return {columns, rows};
}

int to_string(lua_State* L) {
    const Tensor& a = check_tensor(L, 1, "tostring");
    const auto [columns, rows] = display_size(L);
    const std::string text = format(a, columns, rows);
    push_text(L, text);
    return 1;
}

int equal(lua_State* L) {
    lua_pushboolean(
        L, is_tensor(L, 1) && is_tensor(L, 2) && identical(check_tensor(L, 1, "=="), check_tensor(L, 2, "==")));
    return 1;
}

int element_count(lua_State* L) {
    lua_pushinteger(L, check_tensor(L, 1, "#").size());
    return 1;
}

int index(lua_State* L) { return method_named(L, "Tensor"); }

int new_index(lua_State*) { fail("elements of a Tensor are written as A:set(value, i, j), not with ="); }

int power(lua_State*) { fail("a Tensor has no operator ^: pow(A, x) is the power of each element"); }
int remainder(lua_State*) { fail("a Tensor has no operator %: A - floor(A / 2) * 2 is the remainder of each element"); }
int quotient(lua_State*) { fail("a Tensor has no operator //: floor(A / 2) is it for each element"); }

int order(lua_State*) {
    fail("Tensors are compared element by element with lt(A, B), le(A, B), gt(A, B) and ge(A, B)");
}

// Pushes the table of methods.
void push_methods(lua_State* L) {
    luaL_getmetatable(L, "causeway.Tensor");
    lua_getfield(L, -1, methods_field);
    lua_remove(L, -2);
}

}  // namespace

void add_methods(lua_State* L, std::initializer_list<Entry> entries) {
    push_methods(L);
    for (const Entry& entry : entries) set_function(L, entry);
    lua_pop(L, 1);
}

void add_functions_and_methods(lua_State* L, std::initializer_list<Entry> entries) {
    add_functions(L, entries);
    add_methods(L, entries);
}

void open_tensor(lua_State* L) {
    luaL_newmetatable(L, "causeway.Tensor");
    const luaL_Reg metamethods[] = {{"__gc", collect},
                                    {"__tostring", guarded<to_string>},
                                    {"__eq", guarded<equal>},
                                    {"__len", guarded<element_count>},
                                    {"__newindex", guarded<new_index>},
                                    {"__call", guarded<tensor_call>},
                                    {"__add", guarded<tensor_add>},
                                    {"__sub", guarded<tensor_subtract>},
                                    {"__mul", guarded<tensor_multiply>},
                                    {"__div", guarded<tensor_divide>},
                                    {"__unm", guarded<tensor_negate>},
                                    {"__pow", guarded<power>},
                                    {"__mod", guarded<remainder>},
                                    {"__idiv", guarded<quotient>},
                                    {"__lt", guarded<order>},
                                    {"__le", guarded<order>},
                                    {nullptr, nullptr}};
    luaL_setfuncs(L, metamethods, 0);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, methods_field);
    lua_pushcclosure(L, guarded<index>, 1);
    lua_setfield(L, -2, "__index");
    seal(L, "Tensor");
    lua_pop(L, 1);

    add_tensor_construction(L);
    add_tensor_indexing(L);
    add_tensor_shapes(L);
    add_tensor_elementwise(L);
    add_tensor_reductions(L);
    add_tensor_linalg(L);
    add_tensor_in_place(L);
}

}  // namespace causeway::lua
