// What the tape of gradients is made of: values that stand for tensors, and a look at every call before it is made. The
// tape itself and its rules are in lua/lib.
#include <utility>

#include "core/tensor/elementwise.hpp"  // computing_type
#include "lua/bind/families.hpp"
#include "lua/bind/gpu.hpp"

namespace causeway::lua {
namespace {

constexpr const char* traced_type = "causeway.Traced";
constexpr const char* tape_field = "causeway.tape";  // in the registry: what _record_with was given

// Sets `on_tape` while it lives.
class OnTape {
public:
    explicit OnTape(bool on) : before_(std::exchange(on_tape, on)) {}
    ~OnTape() { on_tape = before_; }
    OnTape(const OnTape&) = delete;
    OnTape& operator=(const OnTape&) = delete;

private:
    bool before_;
};

// These functions are not guarded: the tape calls them for every argument, and none of them fails.

// _traced(node) -> a value that stands for the node
int traced(lua_State* L) {
    lua_settop(L, 1);
    lua_newuserdatauv(L, 0, 1);
    lua_insert(L, 1);
    lua_setiuservalue(L, 1, 1);
    luaL_setmetatable(L, traced_type);
    return 1;
}

// _traced_node(value) -> the node that the value stands for; nil of any other value
int traced_node(lua_State* L) {
    if (is_traced(L, 1)) lua_getiuservalue(L, 1, 1);
    else lua_pushnil(L);
    return 1;
}

// _traced_metatable() -> that of traced values, which the tape fills
int traced_metatable(lua_State* L) {
    luaL_getmetatable(L, traced_type);
    return 1;
}

// _metatable(type) -> that of "Tensor" or "GpuTensor"; nil where the program has no such type
int metatable(lua_State* L) {
    luaL_getmetatable(L, sentence("causeway.", check_string(L, 1, "type")).c_str());
    return 1;
}

// _storage(value) -> where the elements of a tensor are: a key that all tensors have in common which share them; nil of
// a tensor without elements and of any other value
int storage(lua_State* L) {
    void* place = nullptr;
    if (is_tensor(L, 1) && check_tensor(L, 1, "tensor").size() > 0) place = check_tensor(L, 1, "tensor").raw();
#ifdef CAUSEWAY_GPU
    if (is_gpu_tensor(L, 1)) place = check_gpu_tensor(L, 1, "tensor").data();
#endif
    if (place) lua_pushlightuserdata(L, place);
    else lua_pushnil(L);
    return 1;
}

// _alike(g, x, ...) -> whether the tensors g, x and those after x have one shape, and g the type that x is computed in
int alike(lua_State* L) {
    while (lua_gettop(L) > 2 && lua_isnil(L, -1)) lua_pop(L, 1);
    bool same = true;
    for (int i = 1; i <= lua_gettop(L) && same; ++i) same = is_tensor(L, i);
    if (same) {
        const Tensor &g = check_tensor(L, 1, "g"), &x = check_tensor(L, 2, "x");
        same = g.dtype() == computing_type(x.dtype());
        for (int i = 2; i <= lua_gettop(L) && same; ++i) same = check_tensor(L, i, "y").shape() == g.shape();
    }
    lua_pushboolean(L, same);
    return 1;
}

// _record_with(tape): the function that sees every call first while _record runs. It gets the function that is called
// and its arguments; false or nil leaves the call to the function, true comes before the results of the call.
int record_with(lua_State* L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_settop(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, tape_field);
    return 0;
}

// _record(f, ...) -> f(...)
int record(lua_State* L) {
    const OnTape on(true);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

// _recording() -> whether _record runs
int is_recording(lua_State* L) {
    lua_pushboolean(L, on_tape);
    return 1;
}

}  // namespace

bool is_traced(lua_State* L, int index) { return luaL_testudata(L, index, traced_type) != nullptr; }

int seen_by_tape(lua_State* L) {
    const OnTape off(false);
    const int arguments = lua_gettop(L);
    luaL_checkstack(L, arguments + LUA_MINSTACK, "too many arguments");
    lua_Debug called;
    lua_getfield(L, LUA_REGISTRYINDEX, tape_field);
    lua_getstack(L, 0, &called);
    lua_getinfo(L, "f", &called);
    for (int i = 1; i <= arguments; ++i) lua_pushvalue(L, i);
    lua_call(L, arguments + 1, LUA_MULTRET);
    if (!lua_toboolean(L, arguments + 1)) {
        lua_settop(L, arguments);
        return -1;
    }
    return lua_gettop(L) - arguments - 1;
}

void open_trace(lua_State* L) {
    luaL_newmetatable(L, traced_type);
    lua_pop(L, 1);
    add_functions(L, {{"_traced", traced},
                      {"_traced_node", traced_node},
                      {"_traced_metatable", traced_metatable},
                      {"_metatable", guarded<metatable>},
                      {"_storage", storage},
                      {"_alike", alike},
                      {"_record_with", record_with},
                      {"_record", record},
                      {"_recording", is_recording}});
}

}  // namespace causeway::lua
