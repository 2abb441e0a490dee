// The definition: one token after the other.
#pragma once

#include "core/gated/general/problem.hpp"
#include "core/kit/product.hpp"

namespace causeway::gated {

// S = diag(a_t) S.
template <class T, class S>
void scale_rows(const GeneralHead<T>& h, Index t, S&& state) {
    for (Index e = 0; e < h.gates; ++e) {
        if (h.gates == 1) state *= h.a[t];
        else state.row(e) *= h.a[t * h.gates + e];
    }
}

// The rule as problem.hpp states it. Per token: dk·dv multiplies for a, dk·dv multiply-adds for what w reads, for what
// is taken out, for what is added, and for each query; dv subtractions for -y. O(N·dk·dv) time, O(dv) memory: the
// oracle of the rule.
template <class T>
void recurrent(const GeneralHead<T>& h) {
    auto S = h.state();
    Scratch<T> y(1, h.dv);
    for (Index t = 0; t < h.N; ++t) {
        interrupt::check();
        if (h.u) {
            y.setConstant(T(0));
            add_product(y, h.W().row(t), S);
            for (Index j = 0; j < h.dv; ++j) y(0, j) = T(0) - y(0, j);
        }
        scale_rows(h, t, S);
        if (h.u) add_product(S, h.U().row(t).transpose(), y);
        add_product(S, h.K().row(t).transpose(), h.V().row(t));
        for (Index i = 0; i < h.group; ++i) {
            auto o = h.out(i).row(t);
            o.setConstant(T(0));
            add_product(o, h.Q(i).row(t), S);
            if (!(h.scale == T(1))) o *= h.scale;
        }
    }
}

}  // namespace causeway::gated
