// The definition: one token after the other.
#pragma once

#include "core/gated/problem.hpp"
#include "core/kit/product.hpp"

namespace causeway::gated {

// The recurrence as problem.hpp states it (gates, "Putting them together"; Yang et al. 2024, eq. 10). Per token: dk·dv
// multiplies for the gate, dk·dv multiply-adds for what the delta rule reads, for what is written, and for each query.
// O(N·dk·dv) time, O(dv) memory: the oracle of the family.
template <class T>
void recurrent(const Head<T>& h) {
    using std::exp;
    auto S = h.state();
    Scratch<T> u(1, h.dv);
    for (Index t = 0; t < h.N; ++t) {
        interrupt::check();
        const auto k = h.K().row(t);
        for (Index e = 0; h.g && e < h.gates; ++e) {
            const T a = exp(h.g[t * h.gates + e]);
            if (h.gates == 1) S *= a;
            else S.row(e) *= a;
        }
        if (h.beta) {
            u.setConstant(T(0));
            add_product(u, k, S);
            for (Index j = 0; j < h.dv; ++j) u(0, j) = h.beta[t] * (h.V()(t, j) - u(0, j));
        } else {
            u = h.V().row(t);
        }
        add_product(S, k.transpose(), u);
        for (Index i = 0; i < h.group; ++i) {
            auto o = h.out(i).row(t);
            o.setConstant(T(0));
            add_product(o, h.Q(i).row(t), S);
            if (!(h.scale == T(1))) o *= h.scale;
        }
    }
}

}  // namespace causeway::gated
