// Online softmax over tiles of keys: never more scores than those of a tile (tree, Section 3; Rabe & Staats 2021; Dao
// et al. 2022). A tile of scores with a new maximum m' scales what was summed before by e^{m - m'}.
#pragma once

#include <cmath>

#include "core/kit/product.hpp"
#include "core/softmax/problem.hpp"

namespace causeway::attention {

inline constexpr Index default_tile = 64;  // keys in a tile of the counted form

// Rows [from, to), `tile` keys at a time. To the operations of the definition come, for every tile after the first, an
// exponential, a difference and dv + 1 multiplies. O(rows·M·(d + dv)) time, O(tile) memory.
template <class T>
void flash(const Head<T>& h, Index tile, Index from, Index to) {
    using std::exp;
    const ConstView<T> K(h.k, h.M, h.d), V(h.v, h.M, h.dv);
    Scratch<T> s(1, std::min(tile, h.M));
    for (Index row = from; row < to; ++row) {
        interrupt::check();
        const Index limit = h.limit(row);
        T m(-std::numeric_limits<double>::infinity()), l(0);
        View<T> o(h.O + row * h.dv, 1, h.dv);
        o.setConstant(T(0));
        for (Index start = 0; start < limit; start += tile) {
            const Index n = std::min(tile, limit - start);
            auto p = s.leftCols(n);
            p.setConstant(T(0));
            add_product(p, ConstView<T>(h.q + row * h.d, 1, h.d), K.middleRows(start, n).transpose());
            const T before = m;
            for (Index j = 0; j < n; ++j) {
                p(0, j) *= h.scale;
                if (m < p(0, j)) m = p(0, j);
            }
            const T shift = shift_of(m);
            if (start > 0) {
                const T factor = exp(before - shift);
                l *= factor;
                for (Index e = 0; e < h.dv; ++e) o(0, e) *= factor;
            }
            for (Index j = 0; j < n; ++j) {
                p(0, j) = exp(p(0, j) - shift);
                l += p(0, j);
            }
            add_product(o, p, V.middleRows(start, n));
        }
        for (Index e = 0; limit > 0 && e < h.dv; ++e) o(0, e) /= l;
        h.m[row] = m, h.l[row] = l;
    }
}

}  // namespace causeway::attention
