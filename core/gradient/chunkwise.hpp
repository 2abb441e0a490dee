// The chunkwise backward pass in its definition: products over chunks of tokens, the gradient of the state handed from
// chunk to chunk, last chunk first. What a chunk computed is computed again from the state before it, so only the
// states at the chunk boundaries are stored.
//
// In a chunk, with the letters of core/gated/chunkwise.hpp and Qe = e ⊙ Q, Ke = e ⊙ K, Kw = w ⊙ K (claims F8, G9):
//
//   A = Λ ⊙ Q Kᵀ,  M = Λ ⊙ K Kᵀ below the diagonal,  Y = V - Ke S_0 - M U,  U = diag(β) Y  (forward substitution)
//   O = scale · (Qe S_0 + A U),  S_1 = e_last ⊙ S_0 + Kwᵀ U
//
// and backwards, with D = scale · dO and E = dS_1:
//
//   dA = lower(D Uᵀ),  dU = Aᵀ D + Kw E,  dQe = D S_0ᵀ,  dKw = U Eᵀ
//   dY = dU - Mᵀ dX,  dX = diag(β) dY  (back substitution),  dβ_t = dY_t · Y_t,  dV = dX
//   dM = -(dX Uᵀ below the diagonal),  dKe = -dX S_0ᵀ
//   dS_0 = e_last ⊙ E + Qeᵀ D - Keᵀ dX
//   dQ = e ⊙ dQe + (Λ ⊙ dA) K,  dK = w ⊙ dKw + (Λ ⊙ dA)ᵀ Q + e ⊙ dKe + (Λ ⊙ dM) K + (Λ ⊙ dM)ᵀ K
//
// Without the delta rule U = V, dV = dU and what has an M, X or Ke drops out. A token s moves ln a_s everything that
// reaches over it, from before s to s or later, so dg_s is the sum of all such terms: with Z = dA ⊙ A + dM ⊙ M
//
//   dg_s = Σ_{t>=s} (Σ_{j<s} Z_tj + dQe_t · Qe_t + dKe_t · Ke_t) + Σ_{j<s} dKw_j · Kw_j + <e_last ⊙ S_0, E>
//
// Nothing here is a difference of large sums (as q_t · dq_t - k_t · dk_t summed over the sequence would be): strong
// gates keep their relative accuracy, and the gradient of a gate of exactly 0 is 0.
#pragma once

#include <algorithm>

#include "core/gated/chunkwise.hpp"
#include "core/gradient/problem.hpp"

namespace causeway::gradient {

// Y += Sᵀ X, S lower triangular; what stands above its diagonal is not read, as in add_lower_product.
template <class Out, class L, class In>
void add_lower_transposed_product(Out&& Y, const L& S, const In& X) {
    using T = typename std::decay_t<Out>::Scalar;
    constexpr Index strip = std::is_floating_point_v<T> ? 16 : 1;
    for (Index start = 0; start < S.cols(); start += strip) {
        const Index end = std::min(start + strip, S.cols()), below = S.rows() - end;
        const Index n = end - start;
        if (below > 0)
            add_product(Y.middleRows(start, n), S.block(end, start, below, n).transpose(), X.bottomRows(below));
        for (Index j = start; j < end; ++j)
            for (Index t = j; t < end; ++t) Y.row(j) += S(t, j) * X.row(t);
    }
}

// Y += diag(f) X.
template <class Out, class In, class Factors>
void add_scaled_rows(Out&& Y, const In& X, const Factors& f) {
    for (Index t = 0; t < Y.rows(); ++t) Y.row(t) += f(t) * X.row(t);
}

// The channels of the keys that share a gate, and its running products over one chunk: Λ with zeros above the diagonal,
// e, and w. One for all channels, or without gates (all of them 1), or one for each channel.
template <class T>
struct GateColumn {
    Index first = 0, width;
    Scratch<T> lambda, e, w;

    GateColumn(const gated::Head<T>& h, Index n) : width(h.gates > 1 ? 1 : h.dk), lambda(n, n), e(1, n), w(1, n) {}

    static Index count(const gated::Head<T>& h) { return std::max<Index>(h.gates, 1); }

    void set(const gated::Head<T>& h, Index start, Index column) {
        using std::exp;
        first = column * width;
        lambda.setConstant(T(0));
        for (Index t = 0; t < e.cols(); ++t) {
            const T a = h.gates > 0 ? T(exp(h.g[(start + t) * h.gates + column])) : T(1);
            e(0, t) = t == 0 ? a : e(0, t - 1) * a;
            for (Index j = 0; j < t; ++j) lambda(t, j) = lambda(t - 1, j) * a;
            lambda(t, t) = T(1);
        }
        w = lambda.row(e.cols() - 1);
    }

    template <class M>
    auto channels(M&& X) const {
        return X.middleCols(first, width);
    }
};

// Tokens [start, start + n) as one chunk; S0 is the state before it, d.dS goes from after it to before it. Memory
// (group + 5)·n² + (2·group + 4)·n·dk + (group + 3)·n·dv. With a gate per channel a triangular product is one for each
// channel, of width one: n² multiplies more, dk times.
template <class T>
void one_chunk(const GradHead<T>& d, Index start, Index n, const ConstView<T>& S0) {
    const gated::Head<T>& h = d.in;
    const bool delta = h.beta != nullptr;
    const Index group = h.group, only_delta = delta ? n : 0;
    const auto K = h.K().middleRows(start, n);
    const auto Q = [&](Index i) { return h.Q(i).middleRows(start, n); };
    const auto of = [&](auto& X, Index i) { return X.middleRows(i * n, n); };  // the part of the i-th query head
    const auto lower = [](auto&& out, const auto& X, const auto& Y) { masked_product<T>(out, X, Y, nullptr); };
    GateColumn<T> gate(h, n);
    Scratch<T> A(group * n, n), M(only_delta, n), scores(n, n), P(n, n), Z(n, n);
    Scratch<T> Qe(group * n, h.dk), Ke(only_delta, h.dk), Kw(n, h.dk), D(group * n, h.dv), U(n, h.dv),
        Y(only_delta, h.dv), dU(n, h.dv);
    Scratch<T> dQe(group * n, h.dk), dKe(only_delta, h.dk), dKw(n, h.dk), through(1, GateColumn<T>::count(h));
    const auto clear = [](auto&... X) { (X.setConstant(T(0)), ...); };
    clear(A, M, Qe, Ke, Kw, dU, dQe, dKe, dKw, through);

    // What the forward pass made of the chunk.
    for (Index c = 0; c < GateColumn<T>::count(h); ++c) {
        interrupt::check();
        gate.set(h, start, c);
        const auto k = gate.channels(K);
        add_scaled_rows(gate.channels(Kw), k, gate.w);
        for (Index i = 0; i < group; ++i) {
            add_scaled_rows(gate.channels(of(Qe, i)), gate.channels(Q(i)), gate.e);
            lower(scores, gate.channels(Q(i)), k);
            of(A, i) += scores.cwiseProduct(gate.lambda);
        }
        if (!delta) continue;
        add_scaled_rows(gate.channels(Ke), k, gate.e);
        lower(scores, k, k);
        M += scores.cwiseProduct(gate.lambda);
    }
    U = h.V().middleRows(start, n);
    if (delta) {
        M.diagonal().setConstant(T(0));
        Y.setConstant(T(0));
        add_product(Y, Ke, S0);
        for (Index t = 0; t < n; ++t) {
            interrupt::check();
            auto y = Y.row(t);
            add_product(y, M.row(t).head(t), U.topRows(t));
            y = U.row(t) - y;
            U.row(t) = h.beta[start + t] * y;
        }
    }

    // Through the output and the state.
    auto E = d.dState();
    add_product(dKw, U, E.transpose());
    add_product(dU, Kw, E);
    for (Index i = 0; i < group; ++i) {
        of(D, i) = h.scale * d.dOut(i).middleRows(start, n);
        add_lower_transposed_product(dU, of(A, i), of(D, i));
        lower(of(A, i), of(D, i), U);  // dA from here on
    }
    add_product(dQe, D, S0.transpose());
    for (Index c = 0; c < h.gates; ++c) {
        gate.set(h, start, c);
        const T last = gate.e(0, n - 1);
        for (Index x = gate.first; x < gate.first + gate.width; ++x) {
            E.row(x) *= last;
            for (Index j = 0; j < h.dv; ++j) through(0, c) += S0(x, j) * E(x, j);
        }
    }
    add_product(E, Qe.transpose(), D);

    // Through the delta rule: dU becomes dX.
    if (delta) {
        for (Index t = n - 1; t >= 0; --t) {
            interrupt::check();
            auto dx = dU.row(t);
            for (Index j = t + 1; j < n; ++j) dx -= M(j, t) * dU.row(j);
            T sum(0);
            for (Index j = 0; j < h.dv; ++j) sum += dx(0, j) * Y(t, j);
            d.dbeta[start + t] = sum;
            dx *= h.beta[start + t];
        }
        Y = -dU;
        add_product(dKe, Y, S0.transpose());
        add_product(E, Ke.transpose(), Y);
        lower(M, Y, U);  // dM from here on
        M.diagonal().setConstant(T(0));
    }
    d.dV().middleRows(start, n) = dU;

    // Through the scores and the gates.
    for (Index c = 0; c < GateColumn<T>::count(h); ++c) {
        interrupt::check();
        gate.set(h, start, c);
        const auto k = gate.channels(K);
        auto dk = gate.channels(d.dK().middleRows(start, n));
        Z.setConstant(T(0));
        dk.setConstant(T(0));
        add_scaled_rows(dk, gate.channels(dKw), gate.w);
        for (Index i = 0; i < group; ++i) {
            const auto q = gate.channels(Q(i));
            auto dq = gate.channels(d.dQ(i).middleRows(start, n));
            P = of(A, i).cwiseProduct(gate.lambda);
            dq.setConstant(T(0));
            add_scaled_rows(dq, gate.channels(of(dQe, i)), gate.e);
            add_lower_product(dq, P, k);
            add_lower_transposed_product(dk, P, q);
            if (h.gates == 0) continue;
            lower(scores, q, k);
            Z += P.cwiseProduct(scores);
        }
        if (delta) {
            P = M.cwiseProduct(gate.lambda);
            add_scaled_rows(dk, gate.channels(dKe), gate.e);
            add_lower_product(dk, P, k);
            add_lower_transposed_product(dk, P, k);
            lower(scores, k, k);
            Z += P.cwiseProduct(scores);
        }
        if (h.gates == 0) continue;
        // Row t of Z with what reached t from S_0 in front, then likewise the state after the chunk: at s the sum of
        // what is older than s. dot adds over the channels of the gate.
        auto dg = d.dG().col(c).segment(start, n);
        dg.setConstant(T(0));
        const auto dot = [&](const auto& X, const auto& W, Index row) {
            T sum(0);
            for (Index x = gate.first; x < gate.first + gate.width; ++x) sum += X(row, x) * W(row, x);
            return sum;
        };
        for (Index t = 0; t < n; ++t) {
            T older = delta ? dot(dKe, Ke, t) : T(0);
            for (Index i = 0; i < group; ++i) older += dot(dQe, Qe, i * n + t);
            for (Index s = 0; s <= t; ++s) {
                dg(s) += older;
                older += Z(t, s);
            }
        }
        T older = through(0, c);
        for (Index s = 0; s < n; ++s) {
            dg(s) += older;
            older += dot(dKw, Kw, s);
        }
    }
}

// O(N·(dk·dv + C·(dk + dv))) time for chunks of C tokens; beside a chunk's own memory a state for each of the N/C
// chunks.
template <class T>
void chunkwise(const GradHead<T>& d, Index C) {
    const gated::Head<T>& h = d.in;
    const Index chunks = (h.N + C - 1) / C;
    Scratch<T> states(chunks * h.dk, h.dv);
    auto sweep = h;  // the forward pass without queries: only its states are wanted
    sweep.group = 0;
    for (Index i = 0; i < chunks; ++i) {
        auto S = states.middleRows(i * h.dk, h.dk);
        if (i == 0) {
            S = h.state();
            continue;
        }
        S = states.middleRows((i - 1) * h.dk, h.dk);
        sweep.S = S.data();
        gated::one_chunk(sweep, (i - 1) * C, C);
    }
    for (Index i = chunks - 1; i >= 0; --i)
        one_chunk(d, i * C, std::min(C, h.N - i * C), ConstView<T>(states.data() + i * h.dk * h.dv, h.dk, h.dv));
}

}  // namespace causeway::gradient
