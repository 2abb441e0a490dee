// The energy whose gradient is attention (tree, Section 4 and Appendix C): for a query q_i with a source ζ_i
//
//   F_i(ζ_i) = log Σ_j exp(scale · q_i·k_j + ζ_i·v_j),   F_tot = Σ_i F_i            (eq. 6, 25, 27, 28)
//   ∂F_i/∂ζ_i = Σ_j P_ij v_j,   P_ij = exp(scale · q_i·k_j + ζ_i·v_j - F_i)          at ζ = 0: attention (Observation
//   1) ∂²F_i/∂ζ_i² = Σ_j P_ij v_j v_jᵀ - ⟨v⟩⟨v⟩ᵀ                                          the covariance of v under P_i
//
// over the keys that query i attends to. F is the cumulant-generating function of v under P (claim H1).
#pragma once

#include <cmath>
#include <optional>
#include <vector>

#include "core/softmax/softmax_attention.hpp"

namespace causeway {

// F_i of every query, [b, h_q, N]; shapes of q, k, v as for softmax_attention, zeta [b, h_q, N, d_v] in the same type,
// none: zeros. Float32, for Float64 inputs Float64. Without any key -Inf. O(h_q·N·M·(d + d_v)) time, like the next one:
// since q·k + ζ·v = [q, ζ]·[k, v], both are softmax attention of longer queries and keys. Throw Error naming the
// argument, OutOfMemory, Interrupted, Timeout.
Tensor energy(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& zeta = {},
              const EnergyOptions& = {});

// ∂F_tot/∂ζ, [b, h_q, N, d_v], the type of q.
Tensor energy_grad(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& zeta = {},
                   const EnergyOptions& = {});

// ∂²F/∂ζ² of one query a head, N = 1: [b, h_q, d_v, d_v] (without the leading dimensions that q lacks). O(h_q·M·(d +
// d_v²)).
Tensor energy_hessian(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& zeta = {},
                      const EnergyOptions& = {});

namespace attention {

// The definition for one query with n keys: returns F, and writes ∂F/∂ζ [dv] where `gradient` is given. The scores are
// shifted by their maximum, which is held constant, so a T that carries derivatives gives those of F (claims H7, H12).
// d + dv multiplies and an exponential a key for the value, dv multiplies a key more for the gradient, dv divisions.
template <class T>
T energy_of_row(const T* q, const T* k, const T* v, const T* zeta, Index n, Index d, Index dv, const T& scale,
                T* gradient) {
    using std::exp;
    using std::log;
    std::vector<T> s(static_cast<std::size_t>(n));
    T m(-std::numeric_limits<double>::infinity());
    for (Index j = 0; j < n; ++j) {
        T dot(0), source(0);
        for (Index e = 0; e < d; ++e) dot += q[e] * k[j * d + e];
        for (Index e = 0; e < dv; ++e) source += zeta[e] * v[j * dv + e];
        T& score = s[static_cast<std::size_t>(j)];
        score = scale * dot + source;
        if (m < score) m = score;
    }
    const T shift = shift_of(m);
    T l(0);
    for (T& score : s) score = exp(score - shift), l += score;
    for (Index e = 0; gradient && e < dv; ++e) {
        T sum(0);
        for (Index j = 0; j < n; ++j) sum += s[static_cast<std::size_t>(j)] * v[j * dv + e];
        gradient[e] = n > 0 ? sum / l : T(0);
    }
    return n > 0 ? shift + log(l) : m;
}

}  // namespace attention
}  // namespace causeway
