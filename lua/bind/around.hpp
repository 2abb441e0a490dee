// What stands around linear attention in the layers of models: short convolutions, norms, gates; the same for tensors
// of either place. Their gradients are for grad alone (lua/lib/gradient_calls.lua).
#pragma once

#include <string_view>

#include "core/calls/around.hpp"
#include "lua/bind/attention.hpp"
#include "lua/bind/call.hpp"
#include "lua/bind/counting.hpp"

namespace causeway::lua::around {

// The options of the C++ functions for tensors T: Convolution, Length, Norm and Gate; done() returns when they have
// run.
template <class T>
struct Place;

// What opcount can count: nothing counted does the work of these functions.
inline void refuse_counting(const char* name) {
    lua::refuse_counting(name, "calls of attention alone: it is to stand outside of what is counted");
}

// short_convolution(x, weight, options) -> output, state
template <class T>
int short_convolution_(lua_State* L) {
    const auto& call = calls::short_convolution<T>();
    const Arguments given(L, call);
    const auto [x, weight] = given.tensors<T, 2>();
    refuse_counting(call.name);
    const auto result = short_convolution(x, weight, typename Place<T>::Convolution{given.read(call)});
    Place<T>::done();
    push(L, result.y);
    push(L, result.state);
    return 2;
}

// l2norm(x, options) -> output
template <class T>
int l2norm_(lua_State* L) {
    const auto& call = calls::l2norm<T>();
    const Arguments given(L, call);
    const auto [x] = given.tensors<T, 1>();
    refuse_counting(call.name);
    const T y = l2norm(x, typename Place<T>::Length{given.read(call)});
    Place<T>::done();
    push(L, y);
    return 1;
}

// rms_norm(x, options) -> output
template <class T>
int rms_norm_(lua_State* L) {
    const auto& call = calls::rms_norm<T>();
    const Arguments given(L, call);
    const auto [x] = given.tensors<T, 1>();
    refuse_counting(call.name);
    const T y = rms_norm(x, typename Place<T>::Norm{given.read(call)});
    Place<T>::done();
    push(L, y);
    return 1;
}

// decay_gate(a, A_log, options) -> log_decay
template <class T>
int decay_gate_(lua_State* L) {
    const auto& call = calls::decay_gate<T>();
    const Arguments given(L, call);
    const auto [a, A_log] = given.tensors<T, 2>();
    refuse_counting(call.name);
    const T g = decay_gate(a, A_log, typename Place<T>::Gate{given.read(call)});
    Place<T>::done();
    push(L, g);
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
template <class T>
std::optional<T> taken(lua_State* L, int index, const char* key) {
    std::optional<T> out;
    if (lua_getfield(L, index, key) != LUA_TNIL) out = Tensors<T>::at(L, -1, key);
    lua_pop(L, 1);
    lua_pushnil(L);
    lua_setfield(L, index, key);
    return out;
}

// _short_convolution_grad(x, weight, dy, options) -> {dx, dweight, dbias, dstate}; dstate is among the options
template <class T>
int short_convolution_grad_(lua_State* L) {
    static const auto& call = *new auto(with_arriving(calls::short_convolution<T>(), "short_convolution_grad", "dy"));
    const auto dstate = taken<T>(L, 4, "dstate");
    const Arguments given(L, call);
    const auto [x, weight, dy] = given.tensors<T, 3>();
    const auto g = short_convolution_grad(x, weight, dy, typename Place<T>::Convolution{given.read(call)}, dstate);
    Place<T>::done();
    lua_newtable(L);
    set_field(L, "dx", g.dx);
    set_field(L, "dweight", g.dweight);
    if (g.dbias) set_field(L, "dbias", *g.dbias);
    set_field(L, "dstate", g.dstate);
    return 1;
}

// _l2norm_grad(x, dy, options) -> {dx}
template <class T>
int l2norm_grad_(lua_State* L) {
    static const auto& call = *new auto(with_arriving(calls::l2norm<T>(), "l2norm_grad", "dy"));
    const Arguments given(L, call);
    const auto [x, dy] = given.tensors<T, 2>();
    const T dx = l2norm_grad(x, dy, typename Place<T>::Length{given.read(call)});
    Place<T>::done();
    lua_newtable(L);
    set_field(L, "dx", dx);
    return 1;
}

// _rms_norm_grad(x, dy, options) -> {dx, dweight, dgate}
template <class T>
int rms_norm_grad_(lua_State* L) {
    static const auto& call = *new auto(with_arriving(calls::rms_norm<T>(), "rms_norm_grad", "dy"));
    const Arguments given(L, call);
    const auto [x, dy] = given.tensors<T, 2>();
    const auto g = rms_norm_grad(x, dy, typename Place<T>::Norm{given.read(call)});
    Place<T>::done();
    lua_newtable(L);
    set_field(L, "dx", g.dx);
    if (g.dweight) set_field(L, "dweight", *g.dweight);
    if (g.dgate) set_field(L, "dgate", *g.dgate);
    return 1;
}

// _decay_gate_grad(a, A_log, dg, options) -> {da, dA_log, ddt_bias}
template <class T>
int decay_gate_grad_(lua_State* L) {
    static const auto& call = *new auto(with_arriving(calls::decay_gate<T>(), "decay_gate_grad", "dg"));
    const Arguments given(L, call);
    const auto [a, A_log, dg] = given.tensors<T, 3>();
    const auto g = decay_gate_grad(a, A_log, dg, typename Place<T>::Gate{given.read(call)});
    Place<T>::done();
    lua_newtable(L);
    set_field(L, "da", g.da);
    set_field(L, "dA_log", g.dA_log);
    if (g.ddt_bias) set_field(L, "ddt_bias", *g.ddt_bias);
    return 1;
}

// The function of this name for tensors T; null: there is none.
template <class T>
lua_CFunction call(std::string_view name) {
    static constexpr Entry calls[] = {{"short_convolution", guarded<short_convolution_<T>>},
                                      {"l2norm", guarded<l2norm_<T>>},
                                      {"rms_norm", guarded<rms_norm_<T>>},
                                      {"decay_gate", guarded<decay_gate_<T>>},
                                      {"_short_convolution_grad", guarded<short_convolution_grad_<T>>},
                                      {"_l2norm_grad", guarded<l2norm_grad_<T>>},
                                      {"_rms_norm_grad", guarded<rms_norm_grad_<T>>},
                                      {"_decay_gate_grad", guarded<decay_gate_grad_<T>>}};
    for (const Entry& entry : calls)
        if (entry.name == name) return entry.function;
    return nullptr;
}

}  // namespace causeway::lua::around
