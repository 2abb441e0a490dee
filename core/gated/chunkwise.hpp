// The chunkwise form in its definition: products over chunks of tokens, the state handed from chunk to chunk.
//
// In a chunk with incoming state S_0, unrolling the recurrence (gates; Yang et al. 2024, §3; derivation in
// proofs/gates.md):
//
//   Λ_tj = Π_{s=j+1..t} a_s (j <= t),  e_t = Π_{s<=t} a_s,  w_j = Λ_{last,j}      a = e^g, so all of them in [0, 1]
//   A = Λ ⊙ Q Kᵀ (with the diagonal),  M = Λ ⊙ K Kᵀ (below the diagonal)
//   U = diag(β) (V - (e ⊙ K) S_0 - M U) by forward substitution,  without the delta rule U = V
//   O = scale · ((e ⊙ Q) S_0 + A U),  S_last = e_last ⊙ S_0 + (w ⊙ K)ᵀ U
//
// Λ, e and w are running products of gates: no exponential but that of a gate itself, nothing that could overflow, and
// a gate of exactly 0 (g = -Inf) is exact. With a gate per key channel they are vectors over the channels, and ⊙ acts
// inside the inner products.
#pragma once

#include <algorithm>
#include <limits>

#include "core/gated/problem.hpp"
#include "core/kit/product.hpp"

namespace causeway::gated {

// The gates of one chunk applied to its keys: after push(t) for t = 0, 1, ..., row j <= t of `keys` is Λ_tj ⊙ k_j, so
// after the last token it is w ⊙ K; `e` is e_t. Without gates the keys as they are. n·dk multiplies a token with a gate
// per channel; with one per head the caller scales scores by `lambda` instead and only w ⊙ K is formed, at the end.
template <class T>
class DecayedKeys {
public:
    DecayedKeys(const Head<T>& h, Index start, Index n)
        : h_(h), start_(start), keys(n, h.dk), lambda(1, n), e(1, std::max<Index>(h.gates, 1)) {
        keys = h.K().middleRows(start, n);
        e.setConstant(T(1));
    }

    void push(Index t) {
        using std::exp;
        for (Index c = 0; c < h_.gates; ++c) {
            const T a = exp(h_.g[(start_ + t) * h_.gates + c]);
            e(0, c) = t == 0 ? a : e(0, c) * a;
            if (h_.gates == 1) lambda.leftCols(t) *= a;
            else keys.col(c).head(t) *= a;
        }
        if (h_.gates == 1) lambda(0, t) = T(1);
    }

    // Row t of Λ ⊙ X Kᵀ up to column `columns`, for a row x_t of X.
    template <class Out, class X>
    void scores(Out&& out, const X& x, Index columns) const {
        out.setConstant(T(0));
        add_product(out, x, keys.topRows(columns).transpose());
        if (h_.gates == 1)
            for (Index j = 0; j < columns; ++j) out(0, j) = lambda(0, j) == T(0) ? T(0) : out(0, j) * lambda(0, j);
    }

    // Row c of S times e_last, keys to w ⊙ K.
    void finish(View<T> S) {
        if (h_.gates == 1) {
            for (Index j = 0; j + 1 < keys.rows(); ++j) keys.row(j) *= lambda(0, j);
            S *= e(0, 0);
        }
        if (h_.gates > 1)
            for (Index c = 0; c < h_.gates; ++c) S.row(c) *= e(0, c);
    }

private:
    const Head<T>& h_;
    Index start_;

public:
    Scratch<T> keys, lambda, e;
};

// Tokens [start, start + n) as one chunk; S is advanced. MACs without gates: n·dk·dv for each of (e ⊙ Q) S_0 (a query
// head), (w ⊙ K)ᵀ U and, with the delta rule, (e ⊙ K) S_0; triangles n(n+1)/2·(dk + dv) a query head and, with the
// delta rule, n(n-1)/2·(dk + dv). Memory n·(dk + dv) + n²·(group + 1).
template <class T>
void one_chunk(const Head<T>& h, Index start, Index n) {
    const auto K = h.K().middleRows(start, n);
    auto S = h.state();
    DecayedKeys<T> decayed(h, start, n);
    Scratch<T> A(h.group * n, n), M(1, n), U(n, h.dv), x(1, h.dk), read(1, h.dv);
    const auto times_e = [&](const auto& row) -> const View<T>& {
        x = row;
        for (Index c = 0; h.gates > 0 && c < h.dk; ++c) x(0, c) *= decayed.e(0, h.gates == 1 ? 0 : c);
        return x;
    };
    U = h.V().middleRows(start, n);
    for (Index t = 0; t < n; ++t) {
        interrupt::check();
        decayed.push(t);
        if (h.beta) {  // forward substitution: row t of U from the rows before it
            auto row = M.leftCols(t);
            decayed.scores(row, K.row(t), t);
            read.setConstant(T(0));
            add_product(read, times_e(K.row(t)), S);
            add_product(read, row, U.topRows(t));
            for (Index j = 0; j < h.dv; ++j) U(t, j) = h.beta[start + t] * (U(t, j) - read(0, j));
        }
        for (Index i = 0; i < h.group; ++i) {
            auto row = A.row(i * n + t).head(t + 1);
            decayed.scores(row, h.Q(i).row(start + t), t + 1);
            auto o = h.out(i).row(start + t);
            o.setConstant(T(0));
            add_product(o, times_e(h.Q(i).row(start + t)), S);
            add_product(o, row, U.topRows(t + 1));
            if (!(h.scale == T(1))) o *= h.scale;
        }
    }
    decayed.finish(S);
    add_product(S, decayed.keys.transpose(), U);
}

// O(N·(dk·dv + c·(dk + dv))) time for chunks of c tokens.
template <class T>
void chunkwise(const Head<T>& h, Index c) {
    for (Index start = 0; start < h.N; start += c) one_chunk(h, start, std::min(c, h.N - start));
}

// The parallel form: the sequence as one chunk, O(N²·(dk + dv)) time and N²·group memory (gates: the chunk length C =
// n_seq).
template <class T>
void parallel(const Head<T>& h) {
    if (h.N > 0) one_chunk(h, 0, h.N);
}

}  // namespace causeway::gated
