// Block-based: Transformer-VQ's way through the sequence, for any B and C.
#pragma once

#include "core/exact/problem.hpp"
#include "core/kit/product.hpp"

namespace causeway::exact {

// For blocks [i] of b tokens, n the length of the block and p its rows from 0:
//   P_[i] = (B_[i] C_[i]ᵀ ⊙ M) V_[i] + diag(γ^(p+1)) B_[i] S_[i-1]
//   S_[i] = γ^n S_[i-1] + (diag(γ^(n-1-p)) C_[i])ᵀ V_[i]
// (leet eq. 12-13, Algorithm 2; fleet eq. 13, Algorithm 3; the sums of eq. 9-11 run to i-1, and S is r×d.)
// q(r+d) + (2N-b-s)rd multiply-adds with q the sum of n(n+1)/2 over the blocks and s the length of the last: the empty
// first carry and the last update are skipped. Memory rd + b² (+ b r with decay).
template <class T>
void block_based(const Head<T>& h, Index b) {
    const Index N = h.N(), r = h.r(), d = h.d();
    const Index longest = std::min(b, N);
    const Powers<T> powers(h.gamma, h.decays() ? longest + 1 : 0);
    Scratch<T> own(h.S ? 0 : r, d), A(longest, longest), scaled(h.decays() ? longest : 0, r);
    View<T> S(h.S ? h.S : own.data(), r, d);
    bool empty = !h.S;
    auto O = h.O;
    for (Index start = 0; start < N; start += b) {
        const Index n = std::min(b, N - start);
        const auto Bi = h.B.middleRows(start, n), Ci = h.C.middleRows(start, n), Vi = h.V.middleRows(start, n);
        auto Oi = O.middleRows(start, n);
        auto Ai = A.topLeftCorner(n, n);
        Oi.setConstant(T(0));
        if (!empty && h.decays()) {
            for (Index p = 0; p < n; ++p) scaled.row(p) = Bi.row(p) * powers[p + 1];
            add_product(Oi, scaled.topRows(n), S);
        } else if (!empty) {
            add_product(Oi, Bi, S);
        }
        masked_product<T>(Ai, Bi, Ci, h.decays() ? &powers : nullptr);
        add_lower_product(Oi, Ai, Vi);
        if (start + n == N && !h.S) return;
        if (empty) S.setConstant(T(0));
        if (h.decays()) {
            if (!empty) S *= powers[n];
            for (Index p = 0; p < n; ++p) scaled.row(p) = Ci.row(p) * powers[n - 1 - p];
            add_product(S, scaled.topRows(n).transpose(), Vi);
        } else {
            add_product(S, Ci.transpose(), Vi);
        }
        empty = false;
    }
}

}  // namespace causeway::exact
