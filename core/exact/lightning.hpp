// Lightning Attention-2: intra-block by the masked product, inter-block by the carried state.
#pragma once

#include "core/exact/problem.hpp"
#include "core/kit/product.hpp"

namespace causeway::exact {

// For each row p of a block of n tokens (Qin et al. 2024, §3.2; leet §3.2):
//   intra: Σ_{j<=p} γ^(p-j) <b_p, c_j> v_j,  one row of scores at a time
//   inter: γ^(p+1) b_p S
// then S ← γ^n S + Σ_p γ^(n-1-p) c_pᵀ v_p. The multiply-adds of block-based; memory rd + b, the tile being streamed.
template <class T>
void lightning_attention_2(const Head<T>& h, Index b) {
    const Index N = h.N(), r = h.r(), d = h.d();
    const Index longest = std::min(b, N);
    const Powers<T> powers(h.gamma, h.decays() ? longest + 1 : 0);
    Scratch<T> own(h.S ? 0 : r, d), scores(1, longest), scaled(h.decays() ? 1 : 0, r);
    View<T> S(h.S ? h.S : own.data(), r, d);
    bool empty = !h.S;
    auto O = h.O;
    for (Index start = 0; start < N; start += b) {
        const Index n = std::min(b, N - start);
        const auto Bi = h.B.middleRows(start, n), Ci = h.C.middleRows(start, n), Vi = h.V.middleRows(start, n);
        for (Index p = 0; p < n; ++p) {
            auto o = O.row(start + p);
            auto s = scores.leftCols(p + 1);
            o.setConstant(T(0));
            if (!empty) add_product(o, Bi.row(p), S);
            if (!empty && h.decays()) o *= powers[p + 1];
            s.setConstant(T(0));
            add_product(s, Bi.row(p), Ci.topRows(p + 1).transpose());
            if (h.decays())
                for (Index j = 0; j <= p; ++j) s(0, j) *= powers[p - j];
            add_product(o, s, Vi.topRows(p + 1));
        }
        if (start + n == N && !h.S) return;
        if (empty) S.setConstant(T(0));
        if (!empty && h.decays()) S *= powers[n];
        for (Index p = 0; p < n; ++p) {
            if (h.decays()) {
                scaled.row(0) = Ci.row(p) * powers[n - 1 - p];
                add_product(S, scaled.transpose(), Vi.row(p));
            } else {
                add_product(S, Ci.row(p).transpose(), Vi.row(p));
            }
        }
        empty = false;
    }
}

}  // namespace causeway::exact
