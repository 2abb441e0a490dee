// Softmax attention, its gradients, and the energy it is the gradient of.
#include "core/gradient/softmax_attention_grad.hpp"
#include "core/softmax/energy.hpp"
#include "lua/bind/attention_args.hpp"
#include "lua/bind/attention_results.hpp"
#include "lua/bind/counting.hpp"
#include "lua/bind/families.hpp"
#include "lua/bind/gpu.hpp"

namespace causeway::lua {
namespace {

SoftmaxOptions softmax_options(const Options& options) {
    SoftmaxOptions o;
    o.causal = options.boolean("causal", o.causal);
    o.method = options.string("method", o.method);
    if (options.has("scale")) o.scale = options.number("scale", 1);
    check_device(options);
    return o;
}

// softmax_attention(q, k, v, options) -> output, with return_lse also the log-sum-exp
int softmax_attention_(lua_State* L) {
    const Arguments given(L, call_forms::softmax_attention);
    const Tensor q = given.tensor(1, "q"), k = given.tensor(2, "k"), v = given.tensor(3, "v");
    const Options options = given.options();
    const SoftmaxOptions o = softmax_options(options);
    const bool return_lse = options.boolean("return_lse", false);
    const SoftmaxResult result =
        counting ? softmax_attention_counted(q, k, v, o, count_of_call()) : softmax_attention(q, k, v, o);
    push(L, result.O);
    if (return_lse) push(L, result.lse);
    return return_lse ? 2 : 1;
}

// softmax_attention_grad(q, k, v, dO, options) -> {dq, dk, dv}
int softmax_attention_grad_(lua_State* L) {
    const Arguments given(L, call_forms::softmax_attention_grad);
    const Tensor q = given.tensor(1, "q"), k = given.tensor(2, "k"), v = given.tensor(3, "v"),
                 dO = given.tensor(4, "dO");
    const Options options = given.options();
    refuse_counting("softmax_attention_grad", "softmax_attention");
    const SoftmaxOptions o = softmax_options(options);
    const auto forward = given_forward<SoftmaxResult>(tensor_option(L, options, "O"), tensor_option(L, options, "lse"));
    push_gradient(L, softmax_attention_grad(q, k, v, dO, o, forward));
    return 1;
}

// What the calls of the energy have in common: (q, k, v, zeta, options), zeta nil for zeros.
struct EnergyCall {
    Tensor q, k, v;
    std::optional<Tensor> zeta;
    EnergyOptions o;

    EnergyCall(lua_State* L, const char* function) {
        const CallForm form{function, 4, {"q", "k", "v", "zeta"}, {"causal", "scale", "device"}};
        const Arguments given(L, form);
        q = given.tensor(1, "q"), k = given.tensor(2, "k"), v = given.tensor(3, "v");
        const Options options = given.options();
        refuse_counting(function, "softmax_attention");
        const bool named = lua_gettop(L) == 1;
        if (named ? options.has("zeta") : !lua_isnoneornil(L, 4)) zeta = given.tensor(4, "zeta");
        o.causal = options.boolean("causal", o.causal);
        if (options.has("scale")) o.scale = options.number("scale", 1);
        check_device(options);
    }
};

// energy(q, k, v, zeta, options) -> the energy of every query, their sum
int energy_(lua_State* L) {
    const EnergyCall c(L, "energy");
    const Tensor rows = energy(c.q, c.k, c.v, c.zeta, c.o);
    double total = 0;
    for (Index i = 0; i < rows.size(); ++i) total += rows.get(i);
    push(L, rows);
    lua_pushnumber(L, total);
    return 2;
}

int energy_grad_(lua_State* L) {
    const EnergyCall c(L, "energy_grad");
    push(L, energy_grad(c.q, c.k, c.v, c.zeta, c.o));
    return 1;
}

int energy_hessian_(lua_State* L) {
    const EnergyCall c(L, "energy_hessian");
    push(L, energy_hessian(c.q, c.k, c.v, c.zeta, c.o));
    return 1;
}

}  // namespace

void open_softmax(lua_State* L) {
    add_functions_by_device(L, {{"softmax_attention", guarded<softmax_attention_>},
                                {"softmax_attention_grad", guarded<softmax_attention_grad_>},
                                {"energy", guarded<energy_>},
                                {"energy_grad", guarded<energy_grad_>},
                                {"energy_hessian", guarded<energy_hessian_>}});
}

}  // namespace causeway::lua
