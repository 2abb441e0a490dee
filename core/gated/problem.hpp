// What the gated and delta-rule family computes, in the terms of the ONNX operator LinearAttention (opset 27):
//
//   S'  = diag(e^{g_t}) S_{t-1}                       the decay gate, one per head or one per key channel (gates)
//   u_t = v_t, or with the delta rule β_t (v_t - S'ᵀ k_t)
//   S_t = S' + k_t u_tᵀ
//   o_t = scale · S_tᵀ q_t
#pragma once

#include "core/kit/views.hpp"

namespace causeway::gated {

using namespace kit;  // views, products and panels by their plain names

enum class Update { linear, gated, delta, gated_delta };  // gated_delta: both the gate and the delta rule

constexpr bool has_gate(Update u) { return u == Update::gated || u == Update::gated_delta; }
constexpr bool has_delta(Update u) { return u == Update::delta || u == Update::gated_delta; }

// One head of keys and values with the `group` consecutive heads of queries that share its state.
template <class T>
struct Head {
    Index N = 0, dk = 0, dv = 0, group = 1;
    Index gates = 0;          // columns of g: 0 (no gate), 1 (one a head) or dk (one a key channel)
    const T* q = nullptr;     // [group, N, dk]
    const T* k = nullptr;     // [N, dk]
    const T* v = nullptr;     // [N, dv]
    const T* g = nullptr;     // [N, gates], <= 0 (-Inf too: the state is forgotten)
    const T* beta = nullptr;  // [N]; null: no delta rule
    T* O = nullptr;           // [group, N, dv], not read
    T* S = nullptr;           // [dk, dv], in and out
    T scale = T(1);

    ConstView<T> Q(Index i) const { return {q + i * N * dk, N, dk}; }
    ConstView<T> K() const { return {k, N, dk}; }
    ConstView<T> V() const { return {v, N, dv}; }
    ConstView<T> G() const { return {g, N, gates}; }
    View<T> out(Index i) const { return {O + i * N * dv, N, dv}; }
    View<T> state() const { return {S, dk, dv}; }
};

// All heads of a call, checked and contiguous.
template <class T>
struct Problem {
    Index batch = 1, heads = 1, group = 1;  // heads of k and v; of q there are heads · group
    Index N = 0, dk = 0, dv = 0, gates = 0;
    const T* q = nullptr;     // [batch, heads · group, N, dk]
    const T* k = nullptr;     // [batch, heads, N, dk]
    const T* v = nullptr;     // [batch, heads, N, dv]
    const T* g = nullptr;     // [batch, heads, N, gates] or null
    const T* beta = nullptr;  // [batch, heads, N] or null
    T* O = nullptr;           // [batch, heads · group, N, dv]
    T* S = nullptr;           // [batch, heads, dk, dv], in and out
    T scale = T(1);
    Index chunk = 64;

    Index all_heads() const { return batch * heads; }

    Head<T> head(Index h) const {
        Head<T> out;
        out.N = N, out.dk = dk, out.dv = dv, out.group = group, out.gates = gates;
        out.q = q + h * group * N * dk;
        out.k = k + h * N * dk;
        out.v = v + h * N * dv;
        out.g = g ? g + h * N * gates : nullptr;
        out.beta = beta ? beta + h * N : nullptr;
        out.O = O ? O + h * group * N * dv : nullptr;
        out.S = S + h * dk * dv;
        out.scale = scale;
        return out;
    }
};

}  // namespace causeway::gated
