// The inner-product form of the tpu document: every row of scores anew.
#pragma once

#include "core/exact/problem.hpp"
#include "core/kit/product.hpp"

namespace causeway::exact {

// Row by row: s_j = γ^(i-j) <b_i, c_j> for j <= i, then P_i = Σ_{j<=i} s_j v_j   (tpu §3.1; the divisor Σ s_j is the
// last column of V' = [V, 1]). τ(N)(r+d) multiply-adds, τ(n) = n(n+1)/2 (+ τ(N) multiplies with decay); N memory, one
// row of scores (+ N powers). No state is carried: each row looks at all tokens before it.
template <class T>
void inner_product(const Head<T>& h) {
    const Powers<T> powers(h.gamma, h.decays() ? h.N() : 0);
    Scratch<T> scores(1, h.N());
    auto O = h.O;
    O.setConstant(T(0));
    for (Index i = 0; i < h.N(); ++i) {
        interrupt::check();
        auto s = scores.leftCols(i + 1);
        s.setConstant(T(0));
        add_product(s, h.B.row(i), h.C.topRows(i + 1).transpose());
        if (h.decays())
            for (Index j = 0; j <= i; ++j) s(0, j) *= powers[i - j];
        add_product(O.row(i), s, h.V.topRows(i + 1));
    }
}

}  // namespace causeway::exact
