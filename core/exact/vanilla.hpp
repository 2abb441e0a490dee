// The definition, and the same with the whole attention matrix in memory.
#pragma once

#include "core/exact/problem.hpp"
#include "core/kit/product.hpp"

namespace causeway::exact {

// P_i = Σ_{j<=i} γ^(i-j) <b_i, c_j> v_j, term by term: the oracle. Exact arithmetic order of the formula; O(N²(r+d))
// time, O(d) memory. (gates calls it the parallel form, tpu §3.1 the inner-product form.)
template <class T>
void definition(const Head<T>& h) {
    const Index N = h.N(), r = h.r(), d = h.d();
    const Powers<T> powers(h.gamma, h.decays() ? N : 0);
    auto O = h.O;
    O.setConstant(T(0));
    for (Index i = 0; i < N; ++i) {
        for (Index j = 0; j <= i; ++j) {
            T a(0);
            for (Index e = 0; e < r; ++e) a += h.B(i, e) * h.C(j, e);
            if (h.decays()) a *= powers[i - j];
            for (Index k = 0; k < d; ++k) O(i, k) += a * h.V(j, k);
        }
    }
}

// A = B Cᵀ ⊙ M, P = A V, dense as printed (fleet eq. 5; leet eq. 4): N²(r+d) multiply-adds, N² mask multiplies, N²
// memory.
template <class T>
void vanilla(const Head<T>& h) {
    const Index N = h.N();
    const Powers<T> powers(h.gamma, h.decays() ? N : 0);
    const auto M = [&](Index i, Index j) { return j > i ? T(0) : h.decays() ? powers[i - j] : T(1); };
    Scratch<T> A(N, N);
    A.setConstant(T(0));
    add_product(A, h.B, h.C.transpose());
    for (Index i = 0; i < N; ++i)
        for (Index j = 0; j < N; ++j) A(i, j) *= M(i, j);
    auto O = h.O;
    O.setConstant(T(0));
    add_product(O, A, h.V);
}

}  // namespace causeway::exact
