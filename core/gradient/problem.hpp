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
    const T* dO = nullptr;  // [group, N, dv]
    T* dq = nullptr;        // [group, N, dk], like the next ones not read
    T* dk = nullptr;        // [N, dk]
    T* dv = nullptr;        // [N, dv]
    T* dg = nullptr;        // [N, gates], with respect to the logarithms g; null without gates
    T* dbeta = nullptr;     // [N]; null without the delta rule
    T* dS = nullptr;        // [dk, dv]: on entry with respect to the last state, on return to the first one

    ConstView<T> dOut(Index i) const { return {dO + i * in.N * in.dv, in.N, in.dv}; }
    View<T> dQ(Index i) const { return {dq + i * in.N * in.dk, in.N, in.dk}; }
    View<T> dK() const { return {dk, in.N, in.dk}; }
    View<T> dV() const { return {dv, in.N, in.dv}; }
    View<T> dG() const { return {dg, in.N, in.gates}; }
    View<T> dState() const { return {dS, in.dk, in.dv}; }
};

// All heads of a call, checked and contiguous, laid out as the inputs they belong to.
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

    GradHead<T> head(Index h) const {
        GradHead<T> out;
        out.in = in.head(h);
        out.dO = dO + h * in.group * in.N * in.dv;
        out.dq = dq + h * in.group * in.N * in.dk;
        out.dk = dk + h * in.N * in.dk;
        out.dv = dv + h * in.N * in.dv;
        out.dg = dg ? dg + h * in.N * in.gates : nullptr;
        out.dbeta = dbeta ? dbeta + h * in.N : nullptr;
        out.dS = dS + h * in.dk * in.dv;
        return out;
    }
};

}  // namespace causeway::gradient
