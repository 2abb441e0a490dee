// Gradients of causal linear attention and of the gated and delta-rule family.
#include <algorithm>

#include "core/gradient/causal_linear_attention_grad.hpp"
#include "core/gradient/linear_attention_grad.hpp"
#include "lua/bind/attention_args.hpp"
#include "lua/bind/attention_results.hpp"
#include "lua/bind/counting.hpp"
#include "lua/bind/families.hpp"
#include "lua/bind/gpu.hpp"

namespace causeway::lua {
namespace {

// causal_linear_attention_grad(B, C, V, dO, options) -> dB, dC, dV, ddecay (with decay), dstate (with state)
int causal_linear_attention_grad_(lua_State* L) {
    const Arguments given(L, call_forms::causal_linear_attention_grad);
    const Tensor B = given.tensor(1, "B", "q"), C = given.tensor(2, "C", "k"), V = given.tensor(3, "V", "v"),
                 dO = given.tensor(4, "dO");
    const Options options = given.options();
    refuse_counting("causal_linear_attention_grad", "a forward call");
    const CausalOptions o = causal_options(L, options);
    const bool ddecay = options.boolean("ddecay", true);
    const bool one_decay = options.push("decay") == LUA_TNUMBER;
    lua_pop(L, 1);

    const CausalGradient g = causal_linear_attention_grad(B, C, V, dO, o);
    const int before = lua_gettop(L);
    push(L, g.dB);
    push(L, g.dC);
    push(L, g.dV);
    if (one_decay && ddecay) {
        lua_pushnumber(L, g.ddecay[0]);
    } else if (!g.ddecay.empty() && ddecay) {
        Tensor out(DType::f64, {static_cast<Index>(g.ddecay.size())});
        std::copy(g.ddecay.begin(), g.ddecay.end(), out.data<double>());
        push(L, out);
    }
    if (g.dstate) push(L, *g.dstate);
    return lua_gettop(L) - before;
}

// linear_attention_grad(q, k, v, dO, options) -> {dq, dk, dv, dlog_decay, dbeta, dstate}
int linear_attention_grad_(lua_State* L) {
    const Arguments given(L, call_forms::linear_attention_grad);
    const Tensor q = given.tensor(1, "q"), k = given.tensor(2, "k"), v = given.tensor(3, "v"),
                 dO = given.tensor(4, "dO");
    const Options options = given.options();
    refuse_counting("linear_attention_grad", "a forward call");
    LinearOptions o = linear_options(L, options);
    o.state = tensor_option(L, options, "state");
    push_gradient(L, linear_attention_grad(q, k, v, dO, o, tensor_option(L, options, "dstate")));
    return 1;
}

}  // namespace

void open_gradient(lua_State* L) {
    add_functions_by_device(L, {{"causal_linear_attention_grad", guarded<causal_linear_attention_grad_>},
                                {"linear_attention_grad", guarded<linear_attention_grad_>}});
}

}  // namespace causeway::lua
