// Gradients of softmax attention (core/softmax/problem.hpp). With P_ij = e^{s_ij - F_i} and dP_ij = dO_i·v_j
//
//   D_i = Σ_j P_ij dP_ij = dO_i·o_i,   dS_ij = P_ij (dP_ij - D_i)
//   dq_i = scale Σ_j dS_ij k_j,   dk_j = scale Σ_i dS_ij q_i,   dv_j = Σ_i P_ij dO_i
//
// since ∂P_ij/∂s_il = P_ij (δ_jl - P_il). P is computed again from the scores and m_i, l_i, so nothing of size N·M is
// kept.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/base/interrupt.hpp"
#include "core/softmax/problem.hpp"

namespace causeway::gradient {

// One head of keys and values with its queries. Of `in` the fast form reads O, m and l, the definition nothing but q,
// k, v.
template <class T>
struct SoftmaxGradHead {
    attention::Head<T> in;
    const T* dO = nullptr;  // [group, N, dv]
    T* dq = nullptr;        // [group, N, d], like the next ones not read
    T* dk = nullptr;        // [M, d]
    T* dv = nullptr;        // [M, dv]
};

// All heads of a call, checked and contiguous, laid out as the inputs they belong to.
template <class T>
struct SoftmaxGradProblem {
    attention::Problem<T> in;
    const T* dO = nullptr;
    T *dq = nullptr, *dk = nullptr, *dv = nullptr;

    Index all_heads() const { return in.all_heads(); }

    SoftmaxGradHead<T> head(Index h) const {
        SoftmaxGradHead<T> out;
        out.in = in.head(h);
        out.dO = dO + h * out.in.rows * in.dv;
        out.dq = dq + h * out.in.rows * in.d;
        out.dk = dk + h * in.M * in.d;
        out.dv = dv + h * in.M * in.dv;
        return out;
    }
};

// The definition: the formulas above, a query at a time. O(rows·M·(d + dv)) time, O(M) memory.
template <class T>
void softmax_gradient(const SoftmaxGradHead<T>& h) {
    using std::exp;
    const auto& in = h.in;
    const Index d = in.d, w = in.dv;
    std::fill_n(h.dk, in.M * d, T(0));
    std::fill_n(h.dv, in.M * w, T(0));
    Buffer<T> p(in.M), dp(in.M);
    for (Index row = 0; row < in.rows; ++row) {
        interrupt::check();
        const Index n = in.limit(row);
        const T *q = in.q + row * d, *g = h.dO + row * w;
        T* dq = h.dq + row * d;
        T m(-std::numeric_limits<double>::infinity()), l(0), D(0);
        for (Index j = 0; j < n; ++j) {
            const T *k = in.k + j * d, *v = in.v + j * w;
            T s(0), product(0);
            for (Index e = 0; e < d; ++e) s += q[e] * k[e];
            for (Index e = 0; e < w; ++e) product += g[e] * v[e];
            p[j] = s * in.scale;
            dp[j] = product;
            if (m < p[j]) m = p[j];
        }
        const T shift = kit::shift_of(m);
        for (Index j = 0; j < n; ++j) p[j] = exp(p[j] - shift), l += p[j];
        for (Index j = 0; j < n; ++j) p[j] /= l, D += p[j] * dp[j];
        std::fill_n(dq, d, T(0));
        for (Index j = 0; j < n; ++j) {
            const T ds = p[j] * (dp[j] - D) * in.scale;
            for (Index e = 0; e < d; ++e) dq[e] += ds * in.k[j * d + e], h.dk[j * d + e] += ds * q[e];
            for (Index e = 0; e < w; ++e) h.dv[j * w + e] += p[j] * g[e];
        }
    }
}

}  // namespace causeway::gradient
