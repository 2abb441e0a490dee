// What stands around linear attention in the layers of models: short convolutions, norms, gates. Their gradients are
// for grad alone (lua/lib/gradient_calls.lua).
#include "core/around/decay_gate.hpp"
#include "core/around/norms.hpp"
#include "core/around/short_convolution.hpp"
#include "lua/bind/attention.hpp"
#include "lua/bind/call.hpp"
#include "lua/bind/counting.hpp"
#include "lua/bind/families.hpp"

namespace causeway::lua {
namespace {

// What opcount can count: nothing counted does the work of these functions.
constexpr const char* calls_of_attention = "calls of attention alone: it is to stand outside of what is counted";

// short_convolution(x, weight, options) -> output, state
int short_convolution_(lua_State* L) {
    const auto& call = calls::short_convolution<Tensor>();
    const Arguments given(L, call);
    const auto [x, weight] = given.tensors<Tensor, 2>();
    refuse_counting("short_convolution", calls_of_attention);
    const ConvolutionResult result = short_convolution(x, weight, given.read(call));
    push(L, result.y);
    push(L, result.state);
    return 2;
}

// l2norm(x, options) -> output
int l2norm_(lua_State* L) {
    const auto& call = calls::l2norm<Tensor>();
    const Arguments given(L, call);
    const auto [x] = given.tensors<Tensor, 1>();
    refuse_counting("l2norm", calls_of_attention);
    push(L, l2norm(x, given.read(call)));
    return 1;
}

// rms_norm(x, options) -> output
int rms_norm_(lua_State* L) {
    const auto& call = calls::rms_norm<Tensor>();
    const Arguments given(L, call);
    const auto [x] = given.tensors<Tensor, 1>();
    refuse_counting("rms_norm", calls_of_attention);
    push(L, rms_norm(x, given.read(call)));
    return 1;
}

// decay_gate(a, A_log, options) -> log_decay
int decay_gate_(lua_State* L) {
    const auto& call = calls::decay_gate<Tensor>();
    const Arguments given(L, call);
    const auto [a, A_log] = given.tensors<Tensor, 2>();
    refuse_counting("decay_gate", calls_of_attention);
    push(L, decay_gate(a, A_log, given.read(call)));
    return 1;
}

// The described call with what arrives at its output behind its tensors.
template <class S>
calls::Call<S> with_arriving(const calls::Call<S>& call, const char* name, const char* arriving) {
    calls::Call<S> out = call;
    out.name = name;
    out.arguments.push_back({arriving});
    return out;
}

// The tensor `key` of the table at `index`, which then lacks it.
std::optional<Tensor> taken(lua_State* L, int index, const char* key) {
    std::optional<Tensor> out;
    if (lua_getfield(L, index, key) != LUA_TNIL) out = check_tensor(L, -1, key);
    lua_pop(L, 1);
    lua_pushnil(L);
    lua_setfield(L, index, key);
    return out;
}

// _short_convolution_grad(x, weight, dy, options) -> {dx, dweight, dbias, dstate}; dstate is among the options
int short_convolution_grad_(lua_State* L) {
    static const auto& call =
        *new auto(with_arriving(calls::short_convolution<Tensor>(), "short_convolution_grad", "dy"));
    const auto dstate = taken(L, 4, "dstate");
    const Arguments given(L, call);
    const auto [x, weight, dy] = given.tensors<Tensor, 3>();
    const ConvolutionGradient g = short_convolution_grad(x, weight, dy, given.read(call), dstate);
    lua_newtable(L);
    set_field(L, "dx", g.dx);
    set_field(L, "dweight", g.dweight);
    if (g.dbias) set_field(L, "dbias", *g.dbias);
    set_field(L, "dstate", g.dstate);
    return 1;
}

// _l2norm_grad(x, dy, options) -> {dx}
int l2norm_grad_(lua_State* L) {
    static const auto& call = *new auto(with_arriving(calls::l2norm<Tensor>(), "l2norm_grad", "dy"));
    const Arguments given(L, call);
    const auto [x, dy] = given.tensors<Tensor, 2>();
    const Tensor dx = l2norm_grad(x, dy, given.read(call));
    lua_newtable(L);
    set_field(L, "dx", dx);
    return 1;
}

// _rms_norm_grad(x, dy, options) -> {dx, dweight, dgate}
int rms_norm_grad_(lua_State* L) {
    static const auto& call = *new auto(with_arriving(calls::rms_norm<Tensor>(), "rms_norm_grad", "dy"));
    const Arguments given(L, call);
    const auto [x, dy] = given.tensors<Tensor, 2>();
    const NormGradient g = rms_norm_grad(x, dy, given.read(call));
    lua_newtable(L);
    set_field(L, "dx", g.dx);
    if (g.dweight) set_field(L, "dweight", *g.dweight);
    if (g.dgate) set_field(L, "dgate", *g.dgate);
    return 1;
}

// _decay_gate_grad(a, A_log, dg, options) -> {da, dA_log, ddt_bias}
int decay_gate_grad_(lua_State* L) {
    static const auto& call = *new auto(with_arriving(calls::decay_gate<Tensor>(), "decay_gate_grad", "dg"));
    const Arguments given(L, call);
    const auto [a, A_log, dg] = given.tensors<Tensor, 3>();
    const DecayGateGradient g = decay_gate_grad(a, A_log, dg, given.read(call));
    lua_newtable(L);
    set_field(L, "da", g.da);
    set_field(L, "dA_log", g.dA_log);
    if (g.ddt_bias) set_field(L, "ddt_bias", *g.ddt_bias);
    return 1;
}

}  // namespace

void open_around(lua_State* L) {
    add_functions_by_device(L, {{"short_convolution", guarded<short_convolution_>},
                                {"l2norm", guarded<l2norm_>},
                                {"rms_norm", guarded<rms_norm_>},
                                {"decay_gate", guarded<decay_gate_>}});
    add_functions(L, {{"_short_convolution_grad", guarded<short_convolution_grad_>},
                      {"_l2norm_grad", guarded<l2norm_grad_>},
                      {"_rms_norm_grad", guarded<rms_norm_grad_>},
                      {"_decay_gate_grad", guarded<decay_gate_grad_>}});
}

}  // namespace causeway::lua
