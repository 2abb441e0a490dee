// Row-based: the "causal-dot-product_torch" of the leet document.
#pragma once

#include "core/exact/problem.hpp"
#include "core/kit/product.hpp"

namespace causeway::exact {

// S_i = γ S_{i-1} + c_iᵀ v_i,  P_i = b_i S_i   (leet eq. 7-8, Algorithm 1; fleet eq. 8-9, Algorithm 2).
// 2Nrd multiply-adds (+ Nrd multiplies with decay), rd memory.
template <class T>
void row_based(const Head<T>& h) {
    Scratch<T> own(h.S ? 0 : h.r(), h.d());
    View<T> S(h.S ? h.S : own.data(), h.r(), h.d());
    if (!h.S) S.setConstant(T(0));
    auto O = h.O;
    O.setConstant(T(0));
    for (Index i = 0; i < h.N(); ++i) {
        if (h.decays()) S *= T(h.gamma);
        add_product(S, h.C.row(i).transpose(), h.V.row(i));
        add_product(O.row(i), h.B.row(i), S);
    }
}

}  // namespace causeway::exact
