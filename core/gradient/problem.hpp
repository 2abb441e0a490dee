// What the gradients of the gated and delta-rule family work on. With O and S_N the outputs of core/gated/problem.hpp
// and f any function of them, dX stands for ∂f/∂X: from dO and dS_N to the gradients of everything the outputs were
// made of.
#pragma once

#include "core/gated/problem.hpp"

namespace causeway::gradient {

using namespace kit;  // views, products and panels by their plain names

// One head of keys and values with the queries that share its state. `in` is the problem of the forward pass: its S is
// the state before the first token and is not changed, its O is not read.
template <class T>
struct GradHead {
    gated::Head<T> in;
    const T* dO = nullptr;  // [group, N, dv], in.step rows from head to head
    T* dq = nullptr;        // [group, N, dk], likewise; like the next ones not read
    T* dk = nullptr;        // [N, dk]
    T* dv = nullptr;        // [N, dv]
    T* dg = nullptr;        // [N, gates], with respect to the logarithms g; null without gates
    T* dbeta = nullptr;     // [N]; null without the delta rule
    T* dS = nullptr;        // [dk, dv]: on entry with respect to the last state, on return to the first one

    ConstView<T> dOut(Index i) const { return {dO + i * in.step * in.dv, in.N, in.dv}; }
    View<T> dQ(Index i) const { return {dq + i * in.step * in.dk, in.N, in.dk}; }
    View<T> dK() const { return {dk, in.N, in.dk}; }
    View<T> dV() const { return {dv, in.N, in.dv}; }
    View<T> dG() const { return {dg, in.N, in.gates}; }
    View<T> dState() const { return {dS, in.dk, in.dv}; }
};

// All heads of a call, checked and contiguous, laid out as the inputs they belong to; but dq is [batch, heads · group,
// N, dk] and dk [batch, heads, N, dk] also where states share a head: what they are to be added up from.
template <class T>
struct GradProblem {
    gated::Problem<T> in;
    const T* dO = nullptr;
    T* dq = nullptr;
    T* dk = nullptr;
    T* dv = nullptr;
    T* dg = nullptr;
    T* dbeta = nullptr;
    T* dS = nullptr;

    Index all_heads() const { return in.all_heads(); }

    GradHead<T> head(Index i) const {
        const Index row = in.first_row(i), query_row = in.first_row(i, in.group);
        GradHead<T> out;
        out.in = in.head(i);
        out.dO = dO + query_row * in.dv;
        out.dq = dq + query_row * in.dk;
        out.dk = dk + row * in.dk;
        out.dv = dv + row * in.dv;
        out.dg = dg ? dg + row * in.gates : nullptr;
        out.dbeta = dbeta ? dbeta + row : nullptr;
        out.dS = dS + i * in.dk * in.dv;
        return out;
    }
};

}  // namespace causeway::gradient
