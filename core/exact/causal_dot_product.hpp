// Causal-dot-product: the order of work of the Fast Transformers library (causal_product_cpu).
#pragma once

#include "core/exact/problem.hpp"
#include "core/kit/product.hpp"

namespace causeway::exact {

// For each token i and each row e of the state: S_e ← γ S_e + c_ie v_i, then P_i += b_ie S_e while S_e is at hand.
// The same 2Nrd multiply-adds as row-based in one pass over the state instead of two; rd memory.
template <class T>
void causal_dot_product(const Head<T>& h) {
    Scratch<T> own(h.S ? 0 : h.r(), h.d());
    View<T> S(h.S ? h.S : own.data(), h.r(), h.d());
    if (!h.S) S.setConstant(T(0));
    auto O = h.O;
    O.setConstant(T(0));
    for (Index i = 0; i < h.N(); ++i) {
        for (Index e = 0; e < h.r(); ++e) {
            if (h.decays()) S.row(e) *= T(h.gamma);
            S.row(e) += h.C(i, e) * h.V.row(i);
            O.row(i) += h.B(i, e) * S.row(e);
        }
    }
}

}  // namespace causeway::exact
