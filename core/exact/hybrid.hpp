// The hybrid form of the tpu document: inner products within a block, a carried state between blocks, dense products
// only.
#pragma once

#include "core/exact/problem.hpp"
#include "core/kit/product.hpp"

namespace causeway::exact {

// For blocks of b tokens, n the length of the block and p its rows from 0 (tpu §3.4, Algorithm 1):
//   A = M ⊙ (B_[i] C_[i]ᵀ);   P_[i] = A V_[i] + diag(γ^(p+1)) B_[i] S;   S ← γ^n S + (diag(γ^(n-1-p)) C_[i])ᵀ V_[i]
// repaired as in claims G6: V of the block, the divisor as the last column of V' = [V, 1] instead of products with b×b
// ones, so b need not be d; a last block of any length; no EPS. The document has no decay.
// As printed the tile is a square, and no product is left out: q'(r+d) + 2Nrd multiply-adds and q' mask multiplies, q'
// the sum of n² over the blocks (+ 2Nr + ⌈N/b⌉rd multiplies with decay). Memory rd + b² (+ b(r+1) + 1 with decay).
template <class T>
void hybrid(const Head<T>& h, Index b) {
    const Index N = h.N(), r = h.r(), d = h.d();
    const Index longest = std::min(b, N);
    const Powers<T> powers(h.gamma, h.decays() ? longest + 1 : 0);
    Scratch<T> own(h.S ? 0 : r, d), A(longest, longest), scaled(h.decays() ? longest : 0, r);
    View<T> S(h.S ? h.S : own.data(), r, d);
    if (!h.S) S.setConstant(T(0));
    const auto M = [&](Index i, Index j) { return j > i ? T(0) : h.decays() ? powers[i - j] : T(1); };
    auto O = h.O;
    for (Index start = 0; start < N; start += b) {
        const Index n = std::min(b, N - start);
        const auto Bi = h.B.middleRows(start, n), Ci = h.C.middleRows(start, n), Vi = h.V.middleRows(start, n);
        auto Pi = O.middleRows(start, n);
        auto Ai = A.topLeftCorner(n, n);
        Ai.setConstant(T(0));
        add_product(Ai, Bi, Ci.transpose());
        for (Index i = 0; i < n; ++i)
            for (Index j = 0; j < n; ++j) Ai(i, j) *= M(i, j);
        Pi.setConstant(T(0));
        add_product(Pi, Ai, Vi);
        if (h.decays()) {
            for (Index p = 0; p < n; ++p) scaled.row(p) = Bi.row(p) * powers[p + 1];
            add_product(Pi, scaled.topRows(n), S);
            S *= powers[n];
            for (Index p = 0; p < n; ++p) scaled.row(p) = Ci.row(p) * powers[n - 1 - p];
            add_product(S, scaled.topRows(n).transpose(), Vi);
        } else {
            add_product(Pi, Bi, S);
            add_product(S, Ci.transpose(), Vi);
        }
    }
}

}  // namespace causeway::exact
