// FleetAttention in both its forms.
#pragma once

#include "core/exact/problem.hpp"
#include "core/kit/product.hpp"

namespace causeway::exact {

// Rank by rank: P = Σ_j diag(b_j) cumsum(diag(c_j) V), b_j and c_j columns (fleet eq. 7; leet eq. 5). With decay the
// sum is discounted, x_i = γ x_{i-1} + c_ij v_i (fleet C.2; leet C.1). 2Nrd multiply-adds (+ Nrd multiplies), d memory.
template <class T>
void fleet_untiled(const Head<T>& h) {
    Scratch<T> x(1, h.d());
    auto O = h.O;
    O.setConstant(T(0));
    for (Index j = 0; j < h.r(); ++j) {
        View<T> l(h.S ? h.S + j * h.d() : x.data(), 1, h.d());  // the running sum of rank j is row j of the state
        if (!h.S) l.setConstant(T(0));
        for (Index i = 0; i < h.N(); ++i) {
            if (h.decays()) l *= T(h.gamma);
            l += h.C(i, j) * h.V.row(i);
            O.row(i) += h.B(i, j) * l;
        }
    }
}

// Tiles of Br rows and Bc columns with carried sums l^j (fleet Algorithm 1; leet Algorithm 5), local rows p from 0:
//   X = cumsum(diag(C^j) V);  P += diag(B^j)(X + γ^(p+1) l^j);  l^j ← last row of X + γ^n l^j
// (with decay the cumsum is discounted and the carry scaled as in claims E3; printed without either.)
// 2Nrd multiplies and (3N - ⌈N/Br⌉)rd adds; with decay (2N - ⌈N/Br⌉)rd multiplies more. Memory rd + Br·Bc. The fast
// form (fleet.cpp) goes on from l^j instead of adding it: other roundings, and no tile of sums in memory.
template <class T>
void fleet(const Head<T>& h, Index Br, Index Bc) {
    const Index N = h.N(), r = h.r(), d = h.d();
    const Index longest = std::min(Br, N);
    const Powers<T> powers(h.gamma, h.decays() ? longest + 1 : 0);
    Scratch<T> own(h.S ? 0 : r, d), X(longest, std::min(Bc, d));
    View<T> l(h.S ? h.S : own.data(), r, d);
    if (!h.S) l.setConstant(T(0));
    auto O = h.O;
    O.setConstant(T(0));
    for (Index k = 0; k < d; k += Bc) {
        const Index cols = std::min(Bc, d - k);
        for (Index start = 0; start < N; start += Br) {
            const Index n = std::min(Br, N - start);
            const auto V = h.V.block(start, k, n, cols);
            auto P = O.block(start, k, n, cols);
            for (Index j = 0; j < r; ++j) {
                auto lj = l.row(j).segment(k, cols);
                auto x = X.topLeftCorner(n, cols);
                x.row(0) = h.C(start, j) * V.row(0);
                for (Index p = 1; p < n; ++p) {
                    x.row(p) = h.C(start + p, j) * V.row(p);
                    if (h.decays()) x.row(p) += T(h.gamma) * x.row(p - 1);
                    else x.row(p) += x.row(p - 1);
                }
                for (Index p = 0; p < n; ++p) {
                    if (h.decays()) x.row(p) += powers[p + 1] * lj;
                    else x.row(p) += lj;
                    P.row(p) += h.B(start + p, j) * x.row(p);
                }
                lj = x.row(n - 1);
            }
        }
    }
}

}  // namespace causeway::exact
