// Row-based: the "causal-dot-product_torch" of the leet document.
#pragma once

#include "core/kit/product.hpp"

namespace causeway::exact {

// U_i = γ U_{i-1} + c_iᵀ v_i,  P_i = b_i U_i   (leet eq. 7-8, Algorithm 1; 000 eq. 8-9, Algorithm 2).
// 2Nrd multiply-adds (+ Nrd multiplies with decay), rd memory.
template <class T>
void row_based(const Head<T>& h) {
    Scratch<T> own(h.U ? 0 : h.r(), h.d());
    View<T> U(h.U ? h.U : own.data(), h.r(), h.d());
    if (!h.U) U.setConstant(T(0));
    auto O = h.O;
    O.setConstant(T(0));
    for (Index i = 0; i < h.N(); ++i) {
        if (h.decays()) U *= T(h.gamma);
        add_product(U, h.C.row(i).transpose(), h.V.row(i));
        add_product(O.row(i), h.B.row(i), U);
    }
}

}  // namespace causeway::exact
