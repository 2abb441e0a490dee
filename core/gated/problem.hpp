// What the gated and delta-rule family computes, in the terms of the ONNX operator LinearAttention (opset 27):
//
//   S'  = diag(e^{g_t}) S_{t-1}                       the decay gate, one per head or one per key channel (gates)
//   u_t = v_t, or with the delta rule β_t (v_t - S'ᵀ k_t)
//   S_t = S' + k_t u_tᵀ
//   o_t = scale · S_tᵀ q_t
#pragma once

#include <vector>

#include "core/kit/views.hpp"

namespace causeway::gated {

using namespace kit;  // views, products and panels by their plain names

enum class Update { linear, gated, delta, gated_delta };  // gated_delta: both the gate and the delta rule

constexpr bool has_gate(Update u) { return u == Update::gated || u == Update::gated_delta; }
constexpr bool has_delta(Update u) { return u == Update::delta || u == Update::gated_delta; }

// One head of values, which has a state of its own, with its keys and the `group` consecutive heads of queries that
// read the state: all tokens, or those of one of the sequences that are packed one after the other.
template <class T>
struct Head {
    Index N = 0, dk = 0, dv = 0, group = 1;
    Index step = 0;           // tokens from a head of queries to the next: N, or more where sequences are packed
    Index gates = 0;          // columns of g: 0 (no gate), 1 (one a head) or dk (one a key channel)
    const T* q = nullptr;     // [group, N, dk], `step` rows from head to head
    const T* k = nullptr;     // [N, dk]
    const T* v = nullptr;     // [N, dv]
    const T* g = nullptr;     // [N, gates], <= 0 (-Inf too: the state is forgotten)
    const T* beta = nullptr;  // [N]; null: no delta rule
    T* O = nullptr;           // [group, N, dv], like q; not read
    T* S = nullptr;           // [dk, dv], in and out
    T scale = T(1);

    ConstView<T> Q(Index i) const { return {q + i * step * dk, N, dk}; }
    ConstView<T> K() const { return {k, N, dk}; }
    ConstView<T> V() const { return {v, N, dv}; }
    ConstView<T> G() const { return {g, N, gates}; }
    View<T> out(Index i) const { return {O + i * step * dv, N, dv}; }
    View<T> state() const { return {S, dk, dv}; }
};

// A sequence of its own within the tokens of a batch entry.
struct Sequence {
    Index batch = 0, first = 0, n = 0;
};

// All heads of a call, checked and contiguous. A state belongs to a head of values and to a sequence: to every batch
// entry, or to each of the sequences packed into them. Consecutive states may share a head of keys and one of queries
// (grouped values), or consecutive heads of queries a state (grouped queries, then shared_queries is 1).
template <class T>
struct Problem {
    Index batch = 1, heads = 1;  // heads of v, g, beta and the states
    Index group = 1, shared_queries = 1, shared_keys = 1;
    Index N = 0, dk = 0, dv = 0, gates = 0;
    std::vector<Sequence> sequences;  // none: each batch entry is one
    std::vector<Index> slots;         // the state of each sequence among those of S; none: in the order of sequences
    const T* q = nullptr;             // [batch, heads · group / shared_queries, N, dk]
    const T* k = nullptr;             // [batch, heads / shared_keys, N, dk]
    const T* v = nullptr;             // [batch, heads, N, dv]
    const T* g = nullptr;             // [batch, heads, N, gates] or null
    const T* beta = nullptr;          // [batch, heads, N] or null
    T* O = nullptr;                   // [batch, heads · group, N, dv]
    T* S = nullptr;                   // [sequences or slots, heads, dk, dv], in and out
    T scale = T(1);
    Index chunk = 64;

    Index all_sequences() const { return sequences.empty() ? batch : static_cast<Index>(sequences.size()); }
    Index all_heads() const { return all_sequences() * heads; }
    // The place of state i among the heads of S.
    Index place(Index i) const {
        return slots.empty() ? i : slots[static_cast<std::size_t>(i / heads)] * heads + i % heads;
    }
    Sequence sequence(Index i) const {
        return sequences.empty() ? Sequence{i, 0, N} : sequences[static_cast<std::size_t>(i)];
    }
    // Rows before the first one of state i, where `per_state` heads of [batch, heads · per_state, N] belong to each.
    Index first_row(Index i, Index per_state = 1) const {
        const Sequence s = sequence(i / heads);
        return (s.batch * heads + i % heads) * per_state * N + s.first;
    }

    Head<T> head(Index i) const {
        const Sequence s = sequence(i / heads);
        const Index h = i % heads, row = first_row(i);
        const Index query_row = (s.batch * (heads / shared_queries) + h / shared_queries) * group * N + s.first;
        Head<T> out;
        out.N = s.n, out.dk = dk, out.dv = dv, out.group = group, out.step = N, out.gates = gates;
        out.q = q + query_row * dk;
        out.k = k + ((s.batch * (heads / shared_keys) + h / shared_keys) * N + s.first) * dk;
        out.v = v + row * dv;
        out.g = g ? g + row * gates : nullptr;
        out.beta = beta ? beta + row : nullptr;
        out.O = O ? O + first_row(i, group) * dv : nullptr;
        out.S = S + place(i) * dk * dv;
        out.scale = scale;
        return out;
    }
};

}  // namespace causeway::gated
