// What the Lua files of lua/lib check arguments with: errors at the user's line, known options, the nearest name.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/base/text.hpp"  // closest
#include "core/base/unknown_name.hpp"
#include "lua/bind/bind.hpp"
#include "lua/bind/families.hpp"
#include "lua/bind/gpu.hpp"

namespace causeway::lua {
namespace {

// One of the names that error_kind returns.
ErrorKind check_kind(lua_State* L, int index) {
    const std::string name = check_string(L, index, "kind");
    for (const ErrorKind kind : all_error_kinds)
        if (name == text_of(kind)) return kind;
    fail("kind: \"", name, "\" is no kind of an error");
}

// _raise(message, kind): an error with the position in the user's file in front; kind: "bad argument" where none is
// given
int raise_message(lua_State* L) {
    const ErrorKind kind = lua_isnoneornil(L, 2) ? ErrorKind::bad_argument : check_kind(L, 2);
    raise(L, check_string(L, 1, "message"), kind);
}

// _of_kind(message, kind) -> message, which error_kind then knows; kind nil: nothing is noted
int message_of_kind(lua_State* L) {
    if (lua_isnoneornil(L, 2)) return lua_settop(L, 1), 1;
    const ErrorKind kind = check_kind(L, 2);
    lua_settop(L, 1);
    remember_kind(L, kind);
    return 1;
}

// _pass_on(problem): raises a caught error again unless it is about what was given: a stop by the user, a time-out, no
// memory
int pass_on(lua_State* L) {
    lua_settop(L, 1);
    error_kind(L);
    const char* kind = lua_tostring(L, -1);
    for (const ErrorKind passing : {ErrorKind::interrupted, ErrorKind::timeout, ErrorKind::out_of_memory}) {
        if (!kind || std::strcmp(kind, text_of(passing)) != 0) continue;
        lua_settop(L, 1);
        return lua_error(L);
    }
    return 0;
}

// _noun(value) -> how a sentence calls it: "nothing", "a number", "a 2×3 Tensor{Float32}"
int noun(lua_State* L) {
    std::string text = type_name(L, 1);
    if (is_tensor(L, 1) || is_gpu_tensor(L, 1)) {
        text = luaL_tolstring(L, 1, nullptr);
        text.resize(std::min(text.find_first_of(":\n"), text.size()));
    }
    text = text == "nil" ? "nothing" : "a " + text;
    push_text(L, text);
    return 1;
}

// _is_tensor(value) -> whether it is one, on the CPU or on a GPU
int is_tensor_(lua_State* L) {
    lua_pushboolean(L, is_tensor(L, 1) || is_gpu_tensor(L, 1));
    return 1;
}

// _check_options(function, options[, known]): an error unless options is nil or a table with only the known names,
// which are those that Tab offers in the function where none are given
int check_options(lua_State* L) {
    const std::string function = check_string(L, 1, "function");
    if (lua_isnoneornil(L, 3)) const Options options(L, 2, function.c_str());
    else const Options options(L, 2, function.c_str(), views_of(check_strings(L, 3, "known")));
    return 0;
}

// _check_names(argument, {name = true}, known): an error for a name that is not known, with the nearest one
int check_names(lua_State* L) {
    const std::string argument = check_string(L, 1, "argument");
    const std::vector<std::string> known = check_strings(L, 3, "known");
    for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
        const std::string name = check_string(L, -2, "name");
        if (std::find(known.begin(), known.end(), name) == known.end())
            throw UnknownName(sentence(argument, ": unknown name \"", name, "\""), name, known);
    }
    return 0;
}

// _closest(word, names): the name nearest to the word, "" where none is near.
int closest_name(lua_State* L) {
    const std::string word = check_string(L, 1, "word");
    const std::string name = closest(word, check_strings(L, 2, "names"));
    push_text(L, name);
    return 1;
}

// print(...): Lua's own, but values stand below each other where one of them has several lines, as a matrix has. All
// texts are made before the first is written.
int print(lua_State* L) {
    const int n = lua_gettop(L);
    luaL_checkstack(L, 8, "print");
    bool lines = false;
    for (int i = 1; i <= n; ++i) {
        std::size_t size = 0;
        const char* text = luaL_tolstring(L, i, &size);
        lines = lines || std::memchr(text, '\n', size) != nullptr;
        lua_replace(L, i);
    }
    push_causeway(L);
    lua_getfield(L, -1, "_status");
    lua_pushliteral(L, "");
    lua_call(L, 1, 0);  // a line of progress gives way, which this would stand behind
    lua_pop(L, 1);
    for (int i = 1; i <= n; ++i) {
        std::size_t size = 0;
        const char* text = lua_tolstring(L, i, &size);
        if (i > 1) std::fputc(lines ? '\n' : '\t', stdout);
        std::fwrite(text, 1, size, stdout);
    }
    std::fputc('\n', stdout);
    std::fflush(stdout);
    return 0;
}

}  // namespace

void open_support(lua_State* L) {
    lua_pushcfunction(L, print);
    lua_setglobal(L, "print");
    add_functions(L, {
                         {"error_kind", guarded<error_kind>},
                         {"_pass_on", guarded<pass_on>},
                         {"_raise", guarded<raise_message>},
                         {"_of_kind", guarded<message_of_kind>},
                         {"_noun", guarded<noun>},
                         {"_is_tensor", guarded<is_tensor_>},
                         {"_check_options", guarded<check_options>},
                         {"_check_names", guarded<check_names>},
                         {"_closest", guarded<closest_name>},
                     });
}

}  // namespace causeway::lua
