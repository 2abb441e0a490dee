// scan{step =, state =, inputs =, ...}: a state carried over the tokens by a step written in Lua, which is called once.
#include "lua/bind/scan.hpp"

#include <algorithm>

#include "core/base/unknown_name.hpp"
#include "core/calls/scan.hpp"
#include "lua/bind/call.hpp"
#include "lua/bind/counting.hpp"
#include "lua/bind/families.hpp"

namespace causeway::lua {
namespace {

using scan::Id;
using scan::Scan;

// A Tensor or a number alone, or a table of them by name.
struct Fields {
    std::vector<scan::Named> values;
    bool by_name = false;
};

scan::Named field(lua_State* L, int index, const std::string& name, const std::string& argument, bool takes_numbers) {
    if (takes_numbers && lua_type(L, index) == LUA_TNUMBER)
        return {name, Tensor::full(DType::f64, Shape{}, lua_tonumber(L, index)), true};
    return {name, check_tensor(L, index, argument.c_str())};
}

// Those of the table at `index`, sorted by name.
std::vector<scan::Named> table_of_fields(lua_State* L, int index, const char* argument, bool takes_numbers) {
    index = lua_absindex(L, index);
    std::vector<scan::Named> out;
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            fail(argument, ": a key that is a ", type_name(L, -2), ", expected names, as in {q = q, k = k}");
        const std::string name = lua_tostring(L, -2);
        out.push_back(field(L, lua_gettop(L), name, sentence(argument, ": ", name), takes_numbers));
    }
    std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return out;
}

// The option `key`, as a table of fields or a single value.
Fields fields(lua_State* L, const Options& options, const char* key, bool takes_single) {
    const std::string argument = sentence("scan: ", key);
    const int type = options.push(key);
    Fields out;
    out.by_name = type == LUA_TTABLE;
    if (out.by_name) out.values = table_of_fields(L, -1, argument.c_str(), takes_single);
    else if (takes_single && type != LUA_TNIL) out.values.push_back(field(L, lua_gettop(L), "", argument, true));
    else if (type == LUA_TNIL)
        fail(argument, ": nothing, expected ",
             takes_single ? "a Tensor, a number, or a table of them by name" : "a table, as in {q = q, k = k}");
    else fail(argument, ": a ", type_name(L, -1), ", expected a table, as in {q = q, k = k}");
    lua_pop(L, 1);
    return out;
}

// __index of the inputs and of states by name: a name that is none of them.
int no_such_field(lua_State* L) {
    std::vector<std::string> names;
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) names.emplace_back(lua_tostring(L, -2));
    std::sort(names.begin(), names.end());
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    const std::string wanted = luaL_tolstring(L, 2, nullptr);
    throw UnknownName(
        sentence("scan: step: no ", lua_tostring(L, lua_upvalueindex(1)), " \"", wanted, "\", expected one of ", list),
        wanted, names);
}

// Pushes what the step sees: a value, or a table of values, whose ids follow `first`.
void push_fields(lua_State* L, const Fields& f, Id first, const char* what) {
    if (!f.by_name) return push_scan_value(L, first);
    lua_newtable(L);
    for (std::size_t i = 0; i < f.values.size(); ++i) {
        push_scan_value(L, first + static_cast<Id>(i));
        lua_setfield(L, -2, f.values[i].name.c_str());
    }
    lua_newtable(L);
    lua_pushstring(L, what);
    lua_pushcclosure(L, guarded<no_such_field>, 1);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
}

// The new states at `index`, in the order of the old ones.
std::vector<Id> new_states(lua_State* L, int index, const Fields& states) {
    std::vector<Id> out;
    if (!states.by_name) {
        out.push_back(check_scan_value(L, index, "scan: step: the new state"));
        return out;
    }
    if (!lua_istable(L, index))
        fail("scan: step: the new state is a ", type_name(L, index), ", expected a table with the names of the state");
    for (const auto& [name, tensor, number] : states.values) {
        const std::string argument = sentence("scan: step: the new state ", name);
        lua_pushstring(L, name.c_str());
        lua_rawget(L, index);
        out.push_back(check_scan_value(L, -1, argument.c_str()));
        lua_pop(L, 1);
    }
    const std::size_t known = out.size();
    std::size_t given = 0;
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) ++given;
    if (given != known) fail("scan: step: the new state has ", given, " names, expected the ", known, " of the state");
    return out;
}

// The outputs at `index`: a value, or several by name, or none.
struct Outputs {
    std::vector<Scan::NewValue> values;
    bool by_name = false;
};

Outputs new_outputs(lua_State* L, int index) {
    Outputs out;
    out.by_name = lua_istable(L, index);
    if (lua_isnil(L, index)) return out;
    if (!out.by_name) {
        out.values.push_back({"", check_scan_value(L, index, "scan: step: the output")});
        return out;
    }
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            fail("scan: step: an output under a ", type_name(L, -2), ", expected names, as in {o = o, m = m}");
        const std::string name = lua_tostring(L, -2), argument = "scan: step: the output " + name;
        out.values.push_back({name, check_scan_value(L, lua_gettop(L), argument.c_str())});
    }
    return out;
}

// A tensor; without dimensions its number.
void push_result(lua_State* L, const Tensor& a) {
    if (a.ndim() > 0) push(L, a);
    else lua_pushnumber(L, a.get(0));
}

int scan_(lua_State* L) {
    const auto& call = calls::scan();
    if (!lua_istable(L, 1) || lua_gettop(L) > 1)
        fail(
            "scan: expected one table, as in scan{step = function(S, x) ... return o, S end, state = S, inputs = {q = "
            "q}}");
    refuse_counting("scan", "linear_attention, for the updates that it has");
    const Options options(L, 1, "scan", names_of(call.options));
    calls::ScanCallOptions given;
    read_options(L, options, call.options, calls::Device::cpu, given);
    const Fields states = fields(L, options, "state", true), inputs = fields(L, options, "inputs", false);
    Scan scan(inputs.values, states.values,
              {given.reverse, options.string("layout", calls::heads_first) == calls::tokens_first});

    if (options.push("step") != LUA_TFUNCTION)
        fail("scan: step: ", lua_isnil(L, -1) ? "nothing" : "a " + type_name(L, -1), ", expected a function");
    Outputs outputs;
    std::vector<Id> after;
    {
        const Recording recording(scan.program);
        const int before = lua_gettop(L) - 1;
        push_fields(L, states, scan.state(0), "state");
        push_fields(L, inputs, scan.input(0), "input");
        lua_call(L, 2, LUA_MULTRET);
        if (const int count = lua_gettop(L) - before; count != 2)
            fail("scan: step: returned ", count, count == 1 ? " value" : " values",
                 ", expected two: the output of the token (or nil) and the new state");
        outputs = new_outputs(L, before + 1);
        after = new_states(L, before + 2, states);
    }
    const Scan::Result result = scan.run(outputs.values, after);

    if (outputs.values.empty()) lua_pushnil(L);
    else if (!outputs.by_name) push_result(L, result.outputs[0]);
    else lua_newtable(L);
    for (std::size_t i = 0; outputs.by_name && i < outputs.values.size(); ++i)
        set_field(L, outputs.values[i].name.c_str(), result.outputs[i]);
    if (!states.by_name) {
        push_result(L, result.states[0]);
        return 2;
    }
    lua_newtable(L);
    for (std::size_t i = 0; i < states.values.size(); ++i) {
        push_result(L, result.states[i]);
        lua_setfield(L, -2, states.values[i].name.c_str());
    }
    return 2;
}

}  // namespace

void open_scan(lua_State* L) {
    add_functions(L, {{"scan", guarded<scan_>}});
    open_scan_values(L);
}

}  // namespace causeway::lua
