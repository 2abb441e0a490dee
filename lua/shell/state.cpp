// Opens the families of lua/bind, then the embedded files of lua/lib and lua/help.
#include "lua/shell/state.hpp"

#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>

#include "lua/bind/bind.hpp"
#include "lua/bind/families.hpp"
#include "lua/shell/embedded.hpp"
#include "lua/shell/heap.hpp"
#include "lua/shell/lists.hpp"
#include "lua/shell/macros.hpp"
#include "lua/shell/names.hpp"
#include "lua/shell/positions.hpp"
#include "lua/shell/script.hpp"
#include "lua/shell/signals.hpp"

namespace causeway::lua {
namespace {

// Pushes a copy of the table at the top, without its metatable.
void push_copy(lua_State* L) {
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, -3);) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, -4);
    }
}

// Pushes the globals of the embedded files: the standard library as it is now, so that no variable of the user's that
// happens to be called `type` or `table` changes what the library does. `_G` is the user's globals.
void push_library_globals(lua_State* L) {
    lua_pushglobaltable(L);
    push_copy(L);
    lua_remove(L, -2);
    for (const char* name : {"coroutine", "io", "math", "os", "string", "table", "utf8", "debug"}) {
        lua_getfield(L, -1, name);
        push_copy(L);
        lua_setfield(L, -3, name);
        lua_pop(L, 1);
    }
}

bool is_lua(const EmbeddedFile& file) { return std::string_view(file.path).ends_with(".lua"); }

// An embedded file that is no code: causeway._texts[path] is its text.
void keep_text(lua_State* L, const EmbeddedFile& file) {
    push_causeway(L);
    luaL_getsubtable(L, -1, "_texts");
    push_text(L, file.text);
    lua_setfield(L, -2, file.path);
    lua_pop(L, 2);
}

// Runs one embedded file; it gets the table `causeway` as its argument and adds to it. Stack: ..., library globals.
void run_embedded(lua_State* L, const EmbeddedFile& file) {
    const std::string chunk = std::string(embedded_chunk) + file.path;
    if (luaL_loadbufferx(L, file.text, std::strlen(file.text), chunk.c_str(), "t") != LUA_OK) lua_error(L);
    lua_pushvalue(L, -2);
    lua_setupvalue(L, -2, 1);
    push_causeway(L);
    lua_call(L, 1, 0);
}

// Entries of the manual that the file has added belong to its topic: lua/help/tensor.lua to "tensor".
void name_topic(lua_State* L, const EmbeddedFile& file) {
    const std::string topic = std::filesystem::path(file.path).stem().string();
    push_causeway(L);
    lua_getfield(L, -1, "manual");
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        if (!lua_istable(L, -1)) luaL_error(L, "%s: manual.%s is not a table", file.path, lua_tostring(L, -2));
        if (lua_getfield(L, -1, "topic") == LUA_TNIL) {
            push_text(L, topic);
            lua_setfield(L, -3, "topic");
        }
        lua_pop(L, 1);
    }
    lua_pop(L, 2);
}

// Names not set by the user are looked up in `causeway`, so a variable of the user's own may have any of its names.
void open_globals(lua_State* L) {
    lua_pushglobaltable(L);
    lua_createtable(L, 0, 1);
    push_causeway(L);
    lua_pushvalue(L, -1);
    lua_setfield(L, -4, "causeway");
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
}

int open_all(lua_State* L) {
    luaL_openlibs(L);
    make_coroutines_stoppable(L);
    make_long_lists_stoppable(L);
    open_patterns(L);
    lua_newtable(L);
    for (const char* name : {
             "manual",    // name -> {call, text, example, topic}: what `?name` shows; filled by lua/help
             "_options",  // function -> {option = {choices...} or true}: what Tab completes inside its calls
         }) {
        lua_newtable(L);
        lua_setfield(L, -2, name);
    }
    lua_setfield(L, LUA_REGISTRYINDEX, "causeway");
    open_tensor(L);
    open_scan(L);
    open_gpu(L);
    open_gpu_measure(L);
    open_files(L);
    open_attention(L);
    open_gated(L);
    open_state_pool(L);
    open_general(L);
    open_around(L);
    open_gradient(L);
    open_softmax(L);
    open_lowrank(L);
    open_bounds(L);
    open_distributed(L);
    open_model(L);
    open_layouts(L);
    open_calls(L);
    open_measure(L);
    open_time_limit(L);
    open_numbers(L);
    open_support(L);
    open_trace(L);
    open_journal(L);
    open_provenance(L);
    open_system(L);
    open_display(L);
    open_macros(L);
    open_names(L);
    open_script(L);
    open_positions(L);
    push_library_globals(L);
    for (const EmbeddedFile* file = embedded_files; file->path; ++file) {
        if (!is_lua(*file)) {
            keep_text(L, *file);
            continue;
        }
        run_embedded(L, *file);
        name_topic(L, *file);
    }
    open_globals(L);
    lua_pushglobaltable(L);
    push_copy(L);
    lua_setfield(L, LUA_REGISTRYINDEX, first_globals_key);
    lua_pop(L, 1);
    return 0;
}

// Lua calls this for an error outside of any protected call, which is memory that ran out.
int panic(lua_State* L) {
    const char* message = lua_tostring(L, -1);
    throw OutOfMemory(message ? message : "out of memory");
}

}  // namespace

lua_State* new_state() {
    lua_State* L = lua_newstate(Heap::allocate, new Heap);
    if (!L) throw OutOfMemory("out of memory: no room for a Lua state");
    lua_atpanic(L, panic);
    lua_pushcfunction(L, open_all);
    const int status = lua_pcall(L, 0, 0, 0);
    if (status == LUA_ERRMEM) {
        lua_close(L);
        throw OutOfMemory("out of memory: no room for the library of the shell");
    }
    if (status != LUA_OK) {
        const char* message = lua_tostring(L, -1);
        const std::string cause =
            sentence("internal error: ", message ? message : "a part of the library did not load");
        lua_close(L);
        throw Error(cause);
    }
    return L;
}

}  // namespace causeway::lua
