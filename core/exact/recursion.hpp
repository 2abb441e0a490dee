// Recursion: HyperAttention's halving of the causal mask.
#pragma once

#include "core/exact/problem.hpp"
#include "core/kit/product.hpp"

namespace causeway::exact {

enum class Leaf { vanilla, row_based };  // how a base case is computed

// Rows of one slab of the off-diagonal product: bounds the scratch for scaled rows.
inline constexpr Index recursion_slab = 256;

// O[lo, hi) += the masked product of these tokens among themselves, halved until at most t tokens are left:
//   O1 ← Recursion(1st half), O2 ← Recursion(2nd half) + diag(W1) B2 (diag(W2) C1)ᵀ V1,
//   W1 = [1, γ, γ², ...], W2 = [γ^n1, ..., γ²,  γ]
// stacked as [O1; O3 + O2] (leet Algorithms 3 and 4, fleet Algorithm 4, whose printed result [[O1,0],[O3,O2]] has the
// wrong shape; claims C2). No exponent is negative, so strong decay underflows and never overflows.
template <class T>
void recursion_step(const Head<T>& h, Index lo, Index hi, Index t, Leaf leaf, const Powers<T>& powers, View<T> S,
                    View<T> tile) {
    const Index n = hi - lo, slab = recursion_slab;
    auto O = h.O;
    if (n <= t) {
        if (leaf == Leaf::row_based) {
            S.setConstant(T(0));
            for (Index i = lo; i < hi; ++i) {
                if (h.decays()) S *= powers[1];
                add_product(S, h.C.row(i).transpose(), h.V.row(i));
                add_product(O.row(i), h.B.row(i), S);
            }
        } else {
            auto A = View<T>(tile.data(), n, n);
            masked_product<T>(A, h.B.middleRows(lo, n), h.C.middleRows(lo, n), h.decays() ? &powers : nullptr);
            add_lower_product(O.middleRows(lo, n), A, h.V.middleRows(lo, n));
        }
        return;
    }
    const Index mid = lo + n / 2;
    recursion_step(h, lo, mid, t, leaf, powers, S, tile);
    recursion_step(h, mid, hi, t, leaf, powers, S, tile);
    S.setConstant(T(0));
    for (Index at = lo; at < mid; at += slab) {
        const Index rows = std::min(slab, mid - at);
        if (h.decays()) {
            auto scaled = View<T>(tile.data(), rows, h.r());
            for (Index p = 0; p < rows; ++p) scaled.row(p) = h.C.row(at + p) * powers[mid - at - p];
            add_product(S, scaled.transpose(), h.V.middleRows(at, rows));
        } else {
            add_product(S, h.C.middleRows(at, rows).transpose(), h.V.middleRows(at, rows));
        }
    }
    for (Index at = mid; at < hi; at += slab) {
        const Index rows = std::min(slab, hi - at);
        if (h.decays()) {
            auto scaled = View<T>(tile.data(), rows, h.r());
            for (Index p = 0; p < rows; ++p) scaled.row(p) = h.B.row(at + p) * powers[at + p - mid];
            add_product(O.middleRows(at, rows), scaled, S);
        } else {
            add_product(O.middleRows(at, rows), h.B.middleRows(at, rows), S);
        }
    }
}

// Scratch scalars of one `tile`: the masked product of a leaf, or a slab of scaled rows.
inline Index recursion_tile(Index N, Index r, Index t, Leaf leaf, bool decays) {
    const Index widest = std::min(t, N);
    return std::max(leaf == Leaf::vanilla ? widest * widest : 0, decays ? std::min(recursion_slab, N) * r : 0);
}

// rd·halved(N, t) + leaf multiply-adds, halved(N, t) ≈ N log2(N/t) exactly as in claims C1 (fleet Lemma 4.2, leet
// Lemma 3.1).
template <class T>
void recursion(const Head<T>& h, Index t, Leaf leaf = Leaf::vanilla) {
    const Powers<T> powers(h.gamma, h.decays() ? h.N() + 1 : 0);
    Scratch<T> S(h.r(), h.d()), tile(recursion_tile(h.N(), h.r(), t, leaf, h.decays()), 1);
    auto O = h.O;
    O.setConstant(T(0));
    if (h.N() > 0) recursion_step<T>(h, 0, h.N(), t, leaf, powers, S, tile);
}

}  // namespace causeway::exact
