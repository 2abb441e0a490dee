// What every binding uses. Knows the Lua API and core's tensors and errors, no family of functions.
#include "lua/bind/bind.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <new>

#include "core/base/unknown_name.hpp"
#include "lua/bind/called.hpp"
#include "lua/bind/gpu.hpp"

namespace causeway::lua {
namespace {

constexpr const char* tensor_type = "causeway.Tensor";

[[noreturn]] void wrong_type(lua_State* L, int index, const char* argument, const char* expected) {
    const std::string came = type_name(L, index);
    if (came == "nil") fail(argument, ": expected ", expected, ", got nothing");
    fail(argument, ": expected ", expected, ", got a ", came);
}

// Pushes "FILE:LINE: " of the nearest caller that is not one of the embedded Lua files, or "".
void push_position(lua_State* L) {
    lua_Debug caller;
    for (int level = 1; lua_getstack(L, level, &caller); ++level) {
        lua_getinfo(L, "Sl", &caller);
        const bool embedded = std::string_view(caller.source).starts_with(embedded_chunk);
        if (embedded || caller.currentline <= 0) continue;
        lua_pushfstring(L, "%s:%d: ", caller.short_src, caller.currentline);
        return;
    }
    lua_pushliteral(L, "");
}

// Tables of the registry: message -> the name of its kind, and under 1 how many they are. A full table takes the place
// of the older one.
constexpr const char *newer_kinds = "causeway.error_kinds", *older_kinds = "causeway.older_error_kinds";
constexpr lua_Integer remembered = 64;

constexpr std::size_t least_growth = std::size_t{256} << 20;

// Bytes of tensors at which the garbage is collected next: those left after the last time, and half as many again.
std::size_t next_collection = least_growth;

void collect_garbage(lua_State* L) {
    lua_gc(L, LUA_GCCOLLECT);
    next_collection = memory::current() + std::max(least_growth, memory::current() / 2);
}

void collect_when_grown(lua_State* L) {
    if (memory::current() > next_collection) collect_garbage(L);
}

}  // namespace

bool reclaim(lua_State* L, int arguments) {
    if (lua_gettop(L) < arguments) return false;
    lua_settop(L, arguments);
    const std::size_t before = memory::current() + gpu_bytes();
    collect_garbage(L);
    return memory::current() + gpu_bytes() < before;
}

bool may_be_made_again(lua_State* L, int arguments, std::int64_t met) {
    const bool again = distributed::met_others == met && reclaim(L, arguments);
    if (again) distributed::take_back_failed_call();
    else distributed::tell_failed_call();
    return again;
}

void remember_kind(lua_State* L, ErrorKind kind) {
    const int message = lua_gettop(L), kinds = message + 1;
    luaL_getsubtable(L, LUA_REGISTRYINDEX, newer_kinds);
    lua_rawgeti(L, kinds, 1);
    lua_Integer count = lua_tointeger(L, -1);
    lua_settop(L, kinds);
    if (count == remembered) {
        lua_setfield(L, LUA_REGISTRYINDEX, older_kinds);
        lua_newtable(L);
        lua_pushvalue(L, kinds);
        lua_setfield(L, LUA_REGISTRYINDEX, newer_kinds);
        count = 0;
    }
    lua_pushvalue(L, message);
    if (lua_rawget(L, kinds) == LUA_TNIL) ++count;
    lua_pushvalue(L, message);
    lua_pushstring(L, text_of(kind));
    lua_rawset(L, kinds);
    lua_pushinteger(L, count);
    lua_rawseti(L, kinds, 1);
    lua_settop(L, message);
}

int error_kind(lua_State* L) {
    lua_settop(L, 1);
    if (lua_type(L, 1) == LUA_TSTRING) {
        // The one error that Lua raises itself and that is not about the code.
        if (lua_tostring(L, 1) == std::string_view("not enough memory"))
            return lua_pushstring(L, text_of(ErrorKind::out_of_memory)), 1;
        for (const char* kinds : {newer_kinds, older_kinds}) {
            if (lua_getfield(L, LUA_REGISTRYINDEX, kinds) != LUA_TTABLE) continue;
            lua_pushvalue(L, 1);
            if (lua_rawget(L, -2) != LUA_TNIL) return 1;
        }
    }
    lua_pushnil(L);
    return 1;
}

Told told_of(lua_State* L, const std::exception& error) {
    const auto* unknown = dynamic_cast<const UnknownName*>(&error);
    try {
        return {unknown ? unknown->sentence_with(meant_among(L, unknown->name, unknown->known)) : sentence_of(error),
                kind_of(error)};
    } catch (const std::bad_alloc& none) {
        return {sentence_of(none), kind_of(none)};  // so short that it needs no memory
    }
}

void raise(lua_State* L, const std::string& message, ErrorKind kind) {
    luaL_checkstack(L, LUA_MINSTACK, nullptr);
    push_position(L);
    push_text(L, message);
    lua_concat(L, 2);
    remember_kind(L, kind);
    lua_error(L);
    __builtin_unreachable();
}

void raise_in_hook(lua_State* L, const std::string& message, ErrorKind kind) {
    luaL_where(L, 0);
    push_text(L, message);
    lua_concat(L, 2);
    remember_kind(L, kind);
    lua_error(L);
    __builtin_unreachable();
}

void push_causeway(lua_State* L) { lua_getfield(L, LUA_REGISTRYINDEX, "causeway"); }

void make_printable(lua_State* L) {
    push_causeway(L);
    lua_getfield(L, -1, "_printable");
    lua_pushvalue(L, -3);
    lua_call(L, 1, 0);
    lua_pop(L, 1);
}

void set_function(lua_State* L, const Entry& entry) {
    lua_pushcfunction(L, entry.function);
    lua_setfield(L, -2, entry.name);
}

void add_functions(lua_State* L, std::initializer_list<Entry> entries) {
    push_causeway(L);
    for (const Entry& entry : entries) set_function(L, entry);
    lua_pop(L, 1);
}

std::string type_name(lua_State* L, int index) {
    if (is_tensor(L, index)) return "Tensor";
    if (is_gpu_tensor(L, index)) return "Tensor on the GPU";
    if (is_traced(L, index)) return "value traced by grad";
    if (luaL_testudata(L, index, "causeway.ScanValue")) return "value inside scan";
    return lua_isnoneornil(L, index) ? "nil" : luaL_typename(L, index);
}

void push(lua_State* L, Tensor value) {
    void* place = lua_newuserdatauv(L, sizeof(Tensor), 0);
    new (place) Tensor(std::move(value));
    luaL_setmetatable(L, tensor_type);
    collect_when_grown(L);
}

int push_one(lua_State* L, Tensor value) {
    push(L, std::move(value));
    return 1;
}

bool is_tensor(lua_State* L, int index) { return luaL_testudata(L, index, tensor_type) != nullptr; }

namespace {

// What is to be known where the function that runs was called as x.mean(1), a method without its tensor; else "".
const char* hint_on_points(lua_State* L, int index) {
    lua_Debug here;
    if (index != 1 || lua_istable(L, 1) || !lua_getstack(L, 0, &here) || !lua_getinfo(L, "n", &here)) return "";
    const bool field = here.namewhat && here.namewhat == std::string_view("field");
    lua_Debug caller;
    const bool known = lua_getstack(L, 1, &caller) && lua_getinfo(L, "S", &caller);
    const bool users = known && !std::string_view(caller.source).starts_with(embedded_chunk);
    return field && users ? "; a method is called with a colon, as in A:mean(1)" : "";
}

}  // namespace

Tensor& check_tensor(lua_State* L, int index, const char* argument) {
    if (!is_tensor(L, index)) {
        const std::string came = type_name(L, index);
        fail(argument, ": expected a Tensor, got ", came == "nil" ? "nothing" : "a " + came,
             hint_on_points(L, lua_absindex(L, index)));
    }
    return *static_cast<Tensor*>(lua_touserdata(L, index));
}

double check_number(lua_State* L, int index, const char* argument) {
    if (lua_type(L, index) != LUA_TNUMBER) wrong_type(L, index, argument, "a number");
    return lua_tonumber(L, index);
}

Index check_integer(lua_State* L, int index, const char* argument) {
    const double value = check_number(L, index, argument);
    if (value != std::floor(value)) fail(argument, ": ", value, ", expected a whole number");
    if (!(std::abs(value) <= 9e15)) fail(argument, ": ", value, ", expected a whole number of at most 9e15");
    return static_cast<Index>(value);
}

std::string check_string(lua_State* L, int index, const char* argument) {
    if (lua_type(L, index) != LUA_TSTRING) wrong_type(L, index, argument, "a string");
    return text_at(L, index);
}

std::string text_at(lua_State* L, int index) {
    std::size_t n = 0;
    const char* text = lua_tolstring(L, index, &n);
    return std::string(text, n);
}

void push_text(lua_State* L, std::string_view text) { lua_pushlstring(L, text.data(), text.size()); }

std::string with_home(const std::string& path) {
    const char* home = std::getenv("HOME");
    return home && path.starts_with("~/") ? home + path.substr(1) : path;
}

std::vector<std::string> check_strings(lua_State* L, int index, const char* argument) {
    if (!lua_istable(L, index)) wrong_type(L, index, argument, "a list of strings");
    std::vector<std::string> list(lua_rawlen(L, index));
    for (std::size_t i = 0; i < list.size(); ++i) {
        lua_geti(L, index, static_cast<lua_Integer>(i + 1));
        list[i] = check_string(L, -1, argument);
        lua_pop(L, 1);
    }
    return list;
}

void seal(lua_State* L, const char* name) {
    set_field(L, "__name", name);
    set_field(L, "__metatable", name);
}

void set_field(lua_State* L, const char* key, double value) {
    lua_pushnumber(L, value);
    lua_setfield(L, -2, key);
}

void set_field(lua_State* L, const char* key, Index value) {
    lua_pushinteger(L, value);
    lua_setfield(L, -2, key);
}

void set_field(lua_State* L, const char* key, bool value) {
    lua_pushboolean(L, value);
    lua_setfield(L, -2, key);
}

void set_field(lua_State* L, const char* key, const std::string& value) {
    push_text(L, value);
    lua_setfield(L, -2, key);
}

void set_field(lua_State* L, const char* key, const char* value) {
    lua_pushstring(L, value);
    lua_setfield(L, -2, key);
}

void set_field(lua_State* L, const char* key, const Tensor& value) {
    push(L, value);
    lua_setfield(L, -2, key);
}

int method_named(lua_State* L, const char* type, const char* hint) {
    const bool name = lua_type(L, 2) == LUA_TSTRING &&
                      (std::isalpha(static_cast<unsigned char>(*lua_tostring(L, 2))) || *lua_tostring(L, 2) == '_');
    lua_Debug caller;
    // The iterator of ipairs is written in C; one of the user's in Lua.
    const bool in_loop = lua_isinteger(L, 2) && lua_getstack(L, 1, &caller) && lua_getinfo(L, "nS", &caller) &&
                         caller.name && caller.name == std::string_view("for iterator") && *caller.what == 'C';
    if (in_loop) fail("ipairs: a Tensor, expected a list, as in for i, x in ipairs(A:totable()) do");
    if (is_tensor(L, 2))
        fail("a Tensor is indexed as A(mask), the elements where the mask is 1, or A({p}), the places p, not with [ ]");
    if (lua_istable(L, 2))
        fail("a Tensor is indexed as A({1, 3}), rows 1 to 3, or A({{1, 3, 5}}), these rows, not with [ ]");
    if (!name) fail("a Tensor is indexed as A(i, j), its first row as A(1, \":\"), not with [ ]");
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
    const std::string wanted = lua_tostring(L, 2);
    std::vector<std::string> names;
    for (lua_pushnil(L); lua_next(L, lua_upvalueindex(1)); lua_pop(L, 1)) names.emplace_back(lua_tostring(L, -2));
    std::sort(names.begin(), names.end());
    fail(type, " has no method \"", wanted, "\"", meant_method(L, wanted, names), hint);
}

namespace {

// The names in causeway._options[function], sorted; its numbers are the places of arguments.
std::vector<std::string> listed_options(lua_State* L, const char* function) {
    std::vector<std::string> names;
    const int top = lua_gettop(L);
    push_causeway(L);
    lua_getfield(L, -1, "_options");
    lua_getfield(L, -1, function);
    const bool listed = lua_istable(L, -1);
    for (lua_pushnil(L); listed && lua_next(L, -2); lua_pop(L, 1)) {
        if (lua_type(L, -2) == LUA_TSTRING) names.emplace_back(lua_tostring(L, -2));
    }
    lua_settop(L, top);
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace

std::vector<std::string_view> views_of(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

Options::Options(lua_State* L, int index, const char* function)
    : Options(L, index, function, views_of(listed_options(L, function))) {}

Options::Options(lua_State* L, int index, const char* function, const std::vector<std::string_view>& known)
    : L_(L), index_(lua_isnoneornil(L, index) ? 0 : lua_absindex(L, index)) {
    if (index_ == 0) return;
    if (!lua_istable(L, index_) && known.empty())
        fail(function, ": takes no options here, got a ", type_name(L, index_));
    if (!lua_istable(L, index_))
        fail(function, ": options: expected a table such as {", known.front(), " = ...}, got a ", type_name(L, index_));
    for (lua_pushnil(L); lua_next(L, index_); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING) {
            const std::string type = luaL_typename(L, -2), text = luaL_tolstring(L, -2, nullptr);
            fail(function, ": options are named, as in ", known.empty() ? "name" : known.front(), " = ..., got the ",
                 type, " key ", text);
        }
        const std::string_view key = lua_tostring(L, -2);
        if (std::find(known.begin(), known.end(), key) != known.end()) continue;
        const std::string meant = meant_among(L, std::string(key), {known.begin(), known.end()});
        std::string all;
        for (const auto name : known) all.append(all.empty() ? "" : ", ").append(name);
        const std::string expected = known.empty() ? ", takes none" : ", expected one of " + all;
        fail(function, ": unknown option \"", key, "\"", meant.empty() ? expected : meant);
    }
}

int Options::push(const char* key) const {
    if (index_ == 0) {
        lua_pushnil(L_);
        return LUA_TNIL;
    }
    return lua_getfield(L_, index_, key);
}

bool Options::has(const char* key) const {
    const bool given = push(key) != LUA_TNIL;
    lua_pop(L_, 1);
    return given;
}

double Options::number(const char* key, double default_value) const {
    const double value = push(key) == LUA_TNIL ? default_value : check_number(L_, -1, key);
    lua_pop(L_, 1);
    return value;
}

Index Options::integer(const char* key, Index default_value) const {
    const Index value = push(key) == LUA_TNIL ? default_value : check_integer(L_, -1, key);
    lua_pop(L_, 1);
    return value;
}

bool Options::boolean(const char* key, bool default_value) const {
    const int type = push(key);
    if (type != LUA_TNIL && type != LUA_TBOOLEAN) wrong_type(L_, -1, key, "true or false");
    const bool value = type == LUA_TNIL ? default_value : lua_toboolean(L_, -1) != 0;
    lua_pop(L_, 1);
    return value;
}

std::string Options::string(const char* key, const std::string& default_value) const {
    const std::string value = push(key) == LUA_TNIL ? default_value : check_string(L_, -1, key);
    lua_pop(L_, 1);
    return value;
}

std::string Options::choice(const char* key, const std::string& default_value,
                            const std::vector<std::string>& choices) const {
    const std::string value = string(key, default_value);
    for (const auto& name : choices) {
        if (name == value) return value;
    }
    std::string list;
    for (const auto& name : choices) list += (list.empty() ? "\"" : ", \"") + name + "\"";
    fail(key, ": \"", value, "\", expected one of ", list, meant_among(L_, value, choices));
}

}  // namespace causeway::lua
