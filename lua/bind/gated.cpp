// Linear attention with gates and delta rules: whole sequences and single tokens.
#include "core/gated/registry.hpp"
#include "core/gated/step.hpp"
#include "core/sharded/linear_attention.hpp"
#include "lua/bind/attention.hpp"
#include "lua/bind/call.hpp"
#include "lua/bind/counting.hpp"
#include "lua/bind/described.hpp"
#include "lua/bind/families.hpp"
#include "lua/bind/report.hpp"
#include "lua/bind/state_pool.hpp"

namespace causeway::lua {
namespace {

// linear_attention(q, k, v, options) -> output, state (, checkpoints) (, report)
int linear_attention_(lua_State* L) {
    const auto& call = calls::linear_attention<Tensor>();
    const Arguments given(L, call);
    const auto [q, k, v] = given.tensors<Tensor, 3>();
    auto o = given.read(call);
    count_slots_from_zero(o);
    if (o.asked()) {
        refuse_counting("linear_attention with shards", "the call without shards");
        const ShardedLinearResult sharded = linear_attention_sharded(q, k, v, o, o);
        push(L, sharded.O);
        push(L, sharded.state);
        push_report(L, sharded.report);
        return 3;
    }
    const bool delta = o.update == "delta" || o.update == "gated_delta", grows = delta && may_grow(L, o.state);
    CountedCall counted;
    const LinearResult result =
        counting ? linear_attention_counted(q, k, v, o, counted.operations()) : linear_attention(q, k, v, o);
    if (grows) note_growth(L, {k, v, o.beta}, "linear_attention", "update = \"" + o.update + "\" is", result.state);
    return push_output(L, result);
}

// Throws Error where one token is given as [batch, heads, d_k], as beside a state of four dimensions.
void refuse_left_out_length(const Tensor& q, const Tensor& state) {
    const Shape &a = q.shape(), &s = state.shape();
    if (a.ndim() != 3 || s.ndim() != 4 || s[0] != a[0] || s[1] != a[1]) return;
    if (s[0] == 1 && s[1] == a[0]) return;  // which is [heads, tokens, d_k] too
    fail("q: ", a.text(), " is read as [heads, tokens, d_k], expected [batch, heads, tokens, d_k] beside a state of ",
         s.text(), ": one token is ", Shape{a[0], a[1], 1, a[2]}.text());
}

// linear_attention_step(q, k, v, state, options) -> output, state (, array of states)
int linear_attention_step_(lua_State* L) {
    const auto& call = calls::linear_attention_step<Tensor>();
    const Arguments given(L, call);
    auto [q, k, v, state] = given.tensors<Tensor, 4>();
    auto o = given.read(call);
    count_slots_from_zero(o);
    refuse_counting("linear_attention_step", "linear_attention, with mode = \"recurrent\" for the same operations");
    const auto size = gated::check_sizes(q, k, v, o);
    refuse_left_out_length(q, state);
    if (!o.inplace) {
        gated::check_state(state, v, size, false);
        advance_copy(state, gated::states_of(state, size), o);
    }
    Tensor O(q.dtype(), size.output);
    std::vector<Tensor> kept;
    std::vector<Tensor>* const states = o.keep_states ? &kept : nullptr;
    linear_attention_step(q, k, v, state, O, o, states);
    return push_step(L, O, state, states);
}

// _linear_forms() -> the updates and the modes of linear_attention, as lists of tables
int linear_forms(lua_State* L) {
    lua_Integer n = 0;
    lua_newtable(L);
    for (const auto& rule : gated::updates()) {
        push_described(L, rule);
        set_field(L, "gate", gated::has_gate(rule.update));
        set_field(L, "delta", gated::has_delta(rule.update));
        lua_rawseti(L, -2, ++n);
    }
    n = 0;
    lua_newtable(L);
    for (const auto& mode : gated::modes()) {
        push_described(L, mode);
        lua_rawseti(L, -2, ++n);
    }
    return 2;
}

}  // namespace

void open_gated(lua_State* L) {
    add_functions_by_device(
        L, {{"linear_attention", guarded<pooled<calls::linear_attention<Tensor>, linear_attention_>>},
            {"linear_attention_step", guarded<pooled<calls::linear_attention_step<Tensor>, linear_attention_step_>>}});
    add_functions(L, {{"_linear_forms", guarded<linear_forms>}});
}

}  // namespace causeway::lua
