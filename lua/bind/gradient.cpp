// Gradients of causal linear attention and of the gated and delta-rule family.
#include <algorithm>

#include "core/gradient/causal_linear_attention_grad.hpp"
#include "core/gradient/linear_attention_grad.hpp"
#include "core/sharded/causal_linear_attention.hpp"
#include "core/sharded/linear_attention.hpp"
#include "lua/bind/attention.hpp"
#include "lua/bind/call.hpp"
#include "lua/bind/counting.hpp"
#include "lua/bind/families.hpp"
#include "lua/bind/report.hpp"

namespace causeway::lua {
namespace {

// causal_linear_attention_grad(B, C, V, dO, options) -> {dB, dC, dV, ddecay (with decay), dstate (with state)}
// (, report)
int causal_linear_attention_grad_(lua_State* L) {
    const auto& call = calls::causal_linear_attention_grad<Tensor>();
    const Arguments given(L, call);
    const auto [B, C, V, dO] = given.tensors<Tensor, 4>();
    refuse_counting("causal_linear_attention_grad", "a forward call");
    auto o = given.read(call);
    count_slots_from_zero(o);
    refuse_registered(L, o.method);
    std::optional<ShardReport> report;
    CausalGradient g;
    if (o.asked()) {
        ShardedCausalGradient sharded = causal_linear_attention_grad_sharded(B, C, V, dO, o, o);
        report = std::move(sharded.report);
        g = std::move(sharded);
    } else {
        g = causal_linear_attention_grad(B, C, V, dO, o);
    }
    std::optional<Tensor> ddecay;
    if (o.ddecay && !g.ddecay.empty()) {
        ddecay.emplace(DType::f64, Shape{static_cast<Index>(g.ddecay.size())});
        std::copy(g.ddecay.begin(), g.ddecay.end(), ddecay->data<double>());
    }
    push_causal_gradient(L, g, ddecay, is_one_number(L, given.options(), "decay"));
    if (!report) return 1;
    push_report(L, *report);
    return 2;
}

// linear_attention_grad(q, k, v, dO, options) -> {dq, dk, dv, dlog_decay, dbeta, dstate} (, report)
int linear_attention_grad_(lua_State* L) {
    const auto& call = calls::linear_attention_grad<Tensor>();
    const Arguments given(L, call);
    const auto [q, k, v, dO] = given.tensors<Tensor, 4>();
    refuse_counting("linear_attention_grad", "a forward call");
    auto o = given.read(call);
    count_slots_from_zero(o);
    if (o.asked()) {
        const ShardedLinearGradient g = linear_attention_grad_sharded(q, k, v, dO, o, o.dstate, o);
        push_gradient(L, g);
        push_report(L, g.report);
        return 2;
    }
    push_gradient(L, linear_attention_grad(q, k, v, dO, o, o.dstate));
    return 1;
}

}  // namespace

void open_gradient(lua_State* L) {
    add_functions_by_device(L, {{"causal_linear_attention_grad", guarded<causal_linear_attention_grad_>},
                                {"linear_attention_grad", guarded<linear_attention_grad_>}});
}

}  // namespace causeway::lua
