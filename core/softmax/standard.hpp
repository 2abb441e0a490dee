// The definition: for every query the scores of all its keys.
#pragma once

#include <cmath>

#include "core/kit/product.hpp"
#include "core/softmax/problem.hpp"

namespace causeway::attention {

// Rows [from, to) as problem.hpp states them. A pair of a query and a key costs d + 1 + dv multiplies, d + dv + 2 adds
// and an exponential, a query dv divisions. O(rows·M·(d + dv)) time, O(M) memory.
template <class T>
void standard(const Head<T>& h, Index from, Index to) {
    using std::exp;
    const ConstView<T> K(h.k, h.M, h.d), V(h.v, h.M, h.dv);
    Scratch<T> s(1, h.M);
    for (Index row = from; row < to; ++row) {
        interrupt::check();
        const Index n = h.limit(row);
        T m(-std::numeric_limits<double>::infinity()), l(0);
        auto p = s.leftCols(n);
        p.setConstant(T(0));
        add_product(p, ConstView<T>(h.q + row * h.d, 1, h.d), K.topRows(n).transpose());
        for (Index j = 0; j < n; ++j) {
            p(0, j) *= h.scale;
            if (m < p(0, j)) m = p(0, j);
        }
        const T shift = shift_of(m);
        for (Index j = 0; j < n; ++j) {
            p(0, j) = exp(p(0, j) - shift);
            l += p(0, j);
        }
        View<T> o(h.O + row * h.dv, 1, h.dv);
        o.setConstant(T(0));
        add_product(o, p, V.topRows(n));
        for (Index e = 0; n > 0 && e < h.dv; ++e) o(0, e) /= l;
        h.m[row] = m, h.l[row] = l;
    }
}

}  // namespace causeway::attention
