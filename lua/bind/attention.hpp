// What the bindings of attention on the CPU and on the GPU share: names of methods written in Lua, and how results are
// returned, whose structs have the same fields.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/lowrank/lowrank.hpp"
#include "lua/bind/gpu.hpp"
#include "lua/bind/notes.hpp"
#include "lua/bind/result.hpp"

namespace causeway::lua {

// Fails where the method was given to register_method: its gradient is that of the Lua code.
void refuse_registered(lua_State* L, const std::string& method);

// The names given to register_method, in lua/bind/attention.cpp.
std::vector<std::string> registered_names(lua_State* L);

// Says once an entry (a script) where the state of a delta rule has outgrown any use: each token multiplies it by I - β
// k kᵀ, which enlarges it along keys with β |k|² > 2; not where an input was as large, or no number. `rule` is what is
// meant for such keys: "update = \"delta\" is". may_grow: asked before the call, which may write to the state it is
// given; false where that is so large already, or all is said. lua/bind/growth.cpp
bool may_grow(lua_State* L, const std::optional<Tensor>& state);
void note_growth(lua_State* L, std::initializer_list<std::optional<Tensor>> inputs, const char* function,
                 const std::string& rule, const Tensor& state);
void forget_growth(lua_State* L);          // as a new entry begins
void forget_cancelled_rows(lua_State* L);  // likewise

// The options of lowrank in the table at `index`, in lua/bind/lowrank.cpp.
LowRankOptions lowrank_options(lua_State* L, int index, const lowrank::Method& method);

// Pushes the output and the state of the gated family or the general rule, and the checkpoints where there are some;
// returns how many that are.
template <class Result>
int push_output(lua_State* L, const Result& result) {
    push(L, result.O);
    push(L, result.state);
    if (!result.checkpoints) return 2;
    push(L, *result.checkpoints);
    return 3;
}

// Into the table on top of the stack, under both names of the inputs.
template <class T>
void set_input_gradients(lua_State* L, const T& dq, const T& dk, const T& dv) {
    for (const char* name : {"dq", "dB"}) set_field(L, name, dq);
    for (const char* name : {"dk", "dC"}) set_field(L, name, dk);
    for (const char* name : {"dv", "dV"}) set_field(L, name, dv);
}

// Pushes {dB, dC, dV}, also under the names dq, dk, dv, with ddecay where it is given, a number where the decay was one
// (`one_decay`), and dstate where there was a state.
template <class Gradient>
void push_causal_gradient(lua_State* L, const Gradient& g, const std::optional<Tensor>& ddecay, bool one_decay) {
    lua_createtable(L, 0, 8);
    set_input_gradients(L, g.dB, g.dC, g.dV);
    if (ddecay && one_decay) set_field(L, "ddecay", ddecay->get(0));
    else if (ddecay) set_field(L, "ddecay", *ddecay);
    if (g.dstate) set_field(L, "dstate", *g.dstate);
    make_result(L, "a table of gradients", "ddecay dstate");
}

// Pushes the states after each token of a step, as an array.
template <class Tensor>
void push_states(lua_State* L, const std::vector<Tensor>& states) {
    lua_createtable(L, static_cast<int>(states.size()), 0);
    for (std::size_t t = 0; t < states.size(); ++t) {
        push(L, states[t]);
        lua_rawseti(L, -2, static_cast<lua_Integer>(t) + 1);
    }
}

// Of a step without inplace: `own`, a copy of the states that it advances, in the place of those that are given; what
// state_indices picked is all of it.
template <class Tensor, class StepOptions>
void advance_copy(Tensor& state, const Tensor& own, StepOptions& o) {
    state = o.state_indices.empty() ? own.reshape(state.shape()) : own;
    o.state_indices.clear();
}

// What a step returns: output, state (, array of states).
template <class Tensor>
int push_step(lua_State* L, const Tensor& O, const Tensor& state, const std::vector<Tensor>* states) {
    push(L, O);
    push(L, state);
    if (!states) return 2;
    push_states(L, *states);
    return 3;
}

// Whether the option is a number, not a list of them.
inline bool is_one_number(lua_State* L, const Options& given, const char* key) {
    const bool one = given.push(key) == LUA_TNUMBER;
    lua_pop(L, 1);
    return one;
}

// Pushes {dq, dk, dv}, also under the names dB, dC, dV, of the gated family with dlog_decay and dbeta where there are
// such inputs, and dstate, and those of the gates and the norm that the call makes.
template <class Gradient>
void push_gradient(lua_State* L, const Gradient& g) {
    lua_createtable(L, 0, 9);
    set_input_gradients(L, g.dq, g.dk, g.dv);
    if constexpr (requires { g.dstate; }) {
        if (g.dlog_decay) set_field(L, "dlog_decay", *g.dlog_decay);
        if (g.dbeta) set_field(L, "dbeta", *g.dbeta);
        set_field(L, "dstate", g.dstate);
    }
    if constexpr (requires { g.dA_log; }) {
        if (g.dA_log) set_field(L, "dA_log", *g.dA_log);
        if (g.ddt_bias) set_field(L, "ddt_bias", *g.ddt_bias);
        if (g.dnorm_weight) set_field(L, "dnorm_weight", *g.dnorm_weight);
        if (g.dnorm_gate) set_field(L, "dnorm_gate", *g.dnorm_gate);
    }
    make_result(L, "a table of gradients", "dlog_decay dbeta dstate dA_log ddt_bias dnorm_weight dnorm_gate");
}

// Pushes {dq, dk, dv, da, du, dw, dstate} of the general rule, of the inputs that there are.
template <class Gradient>
void push_general_gradient(lua_State* L, const Gradient& g) {
    lua_createtable(L, 0, 10);
    set_input_gradients(L, g.dq, g.dk, g.dv);
    if (g.da) set_field(L, "da", *g.da);
    if (g.du) set_field(L, "du", *g.du), set_field(L, "dw", *g.dw);
    set_field(L, "dstate", g.dstate);
    make_result(L, "a table of gradients", "da du dw");
}

// Pushes B, C, and where the factorisation has more than B Cᵀ a table of it; returns how many that are.
template <class LowRank>
int push_low_rank(lua_State* L, const LowRank& result) {
    push(L, result.B);
    push(L, result.C);
    if (result.extras.empty()) return 2;
    lua_newtable(L);
    for (const auto& [key, value] : result.extras) set_field(L, key.c_str(), value);
    make_printable(L);
    return 3;
}

// The output and log-sum-exp of softmax attention that its gradient was given; none: it computes them. Throws Error for
// one alone.
template <class Result, class Tensor>
std::optional<Result> given_forward(const std::optional<Tensor>& O, const std::optional<Tensor>& lse) {
    if (O && !lse) fail("lse: missing, O was given and the gradient needs both or neither");
    if (lse && !O) fail("O: missing, lse was given and the gradient needs both or neither");
    if (!O) return {};
    return Result{*O, *lse};
}

}  // namespace causeway::lua
