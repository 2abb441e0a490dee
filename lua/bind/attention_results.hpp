// What attention calls return to Lua, from results of the CPU and of the GPU alike: their structs have the same fields.
#pragma once

#include <optional>

#include "lua/bind/gpu.hpp"

namespace causeway::lua {

// Pushes {dq, dk, dv}, of the gated family with dlog_decay and dbeta where there are such inputs, and dstate.
template <class Gradient>
void push_gradient(lua_State* L, const Gradient& g) {
    lua_createtable(L, 0, 6);
    set_field(L, "dq", g.dq);
    set_field(L, "dk", g.dk);
    set_field(L, "dv", g.dv);
    if constexpr (requires { g.dstate; }) {
        if (g.dlog_decay) set_field(L, "dlog_decay", *g.dlog_decay);
        if (g.dbeta) set_field(L, "dbeta", *g.dbeta);
        set_field(L, "dstate", g.dstate);
    }
}

// Pushes B, C, and where the factorisation has more than B Cᵀ a table of it; returns how many that are.
template <class LowRank>
int push_low_rank(lua_State* L, const LowRank& result) {
    push(L, result.B);
    push(L, result.C);
    if (result.extras.empty()) return 2;
    lua_newtable(L);
    for (const auto& [key, value] : result.extras) set_field(L, key.c_str(), value);
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
