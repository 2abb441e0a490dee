// Linear attention by the general rule: whole sequences, some tokens, and gradients.
#include "core/gated/general/general_linear_attention.hpp"
#include "core/gradient/general_linear_attention_grad.hpp"
#include "lua/bind/attention.hpp"
#include "lua/bind/call.hpp"
#include "lua/bind/counting.hpp"
#include "lua/bind/families.hpp"
#include "lua/bind/result.hpp"
#include "lua/bind/state_pool.hpp"

namespace causeway::lua {
namespace {

// general_linear_attention(q, k, v, options) -> output, state (, checkpoints)
int general_linear_attention_(lua_State* L) {
    const auto& call = calls::general_linear_attention<Tensor>();
    const Arguments given(L, call);
    const auto [q, k, v] = given.tensors<Tensor, 3>();
    GeneralOptions o = given.read(call);
    count_slots_from_zero(o);
    const bool grows = o.u && may_grow(L, o.state);
    CountedCall counted;
    const LinearResult result = counting ? general_linear_attention_counted(q, k, v, o, counted.operations())
                                         : general_linear_attention(q, k, v, o);
    if (grows)
        note_growth(L, {k, v, o.u, o.w, o.a}, "general_linear_attention", "delta rules, comba and the like, are",
                    result.state);
    return push_output(L, result);
}

// general_linear_attention_step(q, k, v, state, options) -> output, state (, array of states)
int general_linear_attention_step_(lua_State* L) {
    const auto& call = calls::general_linear_attention_step<Tensor>();
    const Arguments given(L, call);
    auto [q, k, v, state] = given.tensors<Tensor, 4>();
    auto o = given.read(call);
    count_slots_from_zero(o);
    refuse_counting("general_linear_attention_step",
                    "general_linear_attention, with mode = \"recurrent\" for the same operations");
    const auto size = gated::check_general_sizes(q, k, v, o);
    if (!o.inplace) {
        gated::check_state(state, v, size, false);
        advance_copy(state, gated::states_of(state, size), o);
    }
    Tensor O(q.dtype(), size.output);
    std::vector<Tensor> kept;
    std::vector<Tensor>* const states = o.keep_states ? &kept : nullptr;
    general_linear_attention_step(q, k, v, state, O, o, states);
    return push_step(L, O, state, states);
}

// general_linear_attention_grad(q, k, v, dO, options) -> {dq, dk, dv, da, du, dw, dstate}
int general_linear_attention_grad_(lua_State* L) {
    const auto& call = calls::general_linear_attention_grad<Tensor>();
    const Arguments given(L, call);
    const auto [q, k, v, dO] = given.tensors<Tensor, 4>();
    refuse_counting("general_linear_attention_grad", "a forward call");
    auto o = given.read(call);
    count_slots_from_zero(o);
    push_general_gradient(L, general_linear_attention_grad(q, k, v, dO, o, o.dstate));
    return 1;
}

}  // namespace

void open_general(lua_State* L) {
    const lua_CFunction
        whole = guarded<pooled<calls::general_linear_attention<Tensor>, general_linear_attention_>>,
        step = guarded<pooled<calls::general_linear_attention_step<Tensor>, general_linear_attention_step_>>;
    add_functions_by_device(L, {{"general_linear_attention", whole},
                                {"general_linear_attention_step", step},
                                {"general_linear_attention_grad", guarded<general_linear_attention_grad_>}});
}

}  // namespace causeway::lua
