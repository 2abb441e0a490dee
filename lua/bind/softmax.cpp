// Softmax attention, its gradients, and the energy it is the gradient of.
#include "core/gradient/softmax_attention_grad.hpp"
#include "core/sharded/softmax_attention.hpp"
#include "core/softmax/energy.hpp"
#include "core/softmax/registry.hpp"
#include "lua/bind/attention.hpp"
#include "lua/bind/call.hpp"
#include "lua/bind/counting.hpp"
#include "lua/bind/described.hpp"
#include "lua/bind/families.hpp"
#include "lua/bind/report.hpp"

namespace causeway::lua {
namespace {

// softmax_attention(q, k, v, options) -> output (, log-sum-exp with return_lse) (, report)
int softmax_attention_(lua_State* L) {
    const auto& call = calls::softmax_attention<Tensor>();
    const Arguments given(L, call);
    const auto [q, k, v] = given.tensors<Tensor, 3>();
    const auto o = given.read(call);
    if (o.asked()) {
        refuse_counting("softmax_attention with shards", "the call without shards");
        const ShardedSoftmaxResult sharded = softmax_attention_sharded(q, k, v, o, o);
        push(L, sharded.O);
        if (o.return_lse) push(L, sharded.lse);
        push_report(L, sharded.report);
        return o.return_lse ? 3 : 2;
    }
    CountedCall counted;
    const SoftmaxResult result =
        counting ? softmax_attention_counted(q, k, v, o, counted.operations()) : softmax_attention(q, k, v, o);
    push(L, result.O);
    if (o.return_lse) push(L, result.lse);
    return o.return_lse ? 2 : 1;
}

// softmax_attention_grad(q, k, v, dO, options) -> {dq, dk, dv} (, report)
int softmax_attention_grad_(lua_State* L) {
    const auto& call = calls::softmax_attention_grad<Tensor>();
    const Arguments given(L, call);
    const auto [q, k, v, dO] = given.tensors<Tensor, 4>();
    refuse_counting("softmax_attention_grad", "softmax_attention");
    const auto o = given.read(call);
    const auto forward = given_forward<SoftmaxResult>(o.O, o.lse);
    if (o.asked()) {
        const ShardedSoftmaxGradient g = softmax_attention_grad_sharded(q, k, v, dO, o, forward, o);
        push_gradient(L, g);
        push_report(L, g.report);
        return 2;
    }
    push_gradient(L, softmax_attention_grad(q, k, v, dO, o, forward));
    return 1;
}

// What the calls of the energy have in common: (q, k, v, zeta, options), zeta nil for zeros.
struct EnergyCall {
    Tensor q, k, v;
    std::optional<Tensor> zeta;
    EnergyOptions o;

    EnergyCall(lua_State* L, const calls::Call<EnergyOptions>& call) {
        const Arguments given(L, call);
        q = given.tensor<Tensor>(0), k = given.tensor<Tensor>(1), v = given.tensor<Tensor>(2);
        refuse_counting(call.name, "softmax_attention");
        if (given.has(3)) zeta = given.tensor<Tensor>(3);
        o = given.read(call);
    }
};

// energy(q, k, v, zeta, options) -> the energy of every query, their sum
int energy_(lua_State* L) {
    const EnergyCall c(L, calls::energy());
    const Tensor rows = energy(c.q, c.k, c.v, c.zeta, c.o);
    double total = 0;
    for (Index i = 0; i < rows.size(); ++i) total += rows.get(i);
    push(L, rows);
    lua_pushnumber(L, total);
    return 2;
}

int energy_grad_(lua_State* L) {
    const EnergyCall c(L, calls::energy_grad());
    push(L, energy_grad(c.q, c.k, c.v, c.zeta, c.o));
    return 1;
}

int energy_hessian_(lua_State* L) {
    const EnergyCall c(L, calls::energy_hessian());
    push(L, energy_hessian(c.q, c.k, c.v, c.zeta, c.o));
    return 1;
}

// _softmax_forms() -> the methods of softmax_attention, as a list of tables
int softmax_forms(lua_State* L) {
    lua_Integer n = 0;
    lua_newtable(L);
    for (const auto& m : attention::methods()) {
        push_described(L, m);
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

}  // namespace

void open_softmax(lua_State* L) {
    add_functions_by_device(L, {{"softmax_attention", guarded<softmax_attention_>},
                                {"softmax_attention_grad", guarded<softmax_attention_grad_>},
                                {"energy", guarded<energy_>},
                                {"energy_grad", guarded<energy_grad_>},
                                {"energy_hessian", guarded<energy_hessian_>}});
    add_functions(L, {{"_softmax_forms", guarded<softmax_forms>}});
}

}  // namespace causeway::lua
