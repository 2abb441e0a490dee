// The log decay that models make of a projection, a time step and a rate per head.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/calls/around.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway {

// g = -e^A_log softplus(a + dt_bias) (Mamba-2, Qwen3-Next, Kimi Linear), or with lower_bound = L
// g = L sigmoid(e^A_log (a + dt_bias)) (Kimi Linear's safe gate), which lies between L and 0: the log_decay of
// linear_attention. a [b, h, N] or [h, N], or with a gate per key channel [b, h, N, d_k]; A_log [h]; dt_bias [h], or
// with channels [h, d_k]. Computed in Float64 number by number, in the type of a. Throws Error naming the argument.
Tensor decay_gate(const Tensor& a, const Tensor& A_log, const DecayGateOptions& = {});

struct DecayGateGradient {
    Tensor da, dA_log;               // shapes and types of a and A_log
    std::optional<Tensor> ddt_bias;  // where one was given, likewise
};

// The gradient of <g, dg>.
DecayGateGradient decay_gate_grad(const Tensor& a, const Tensor& A_log, const Tensor& dg, const DecayGateOptions& = {});

namespace around {

// The sizes of a call: a as [batch, heads, N, channels], 1 channel for a gate per head. Looks at shapes and types
// alone.
struct GateSizes {
    DType compute;
    Index batch, heads, N, channels;
};
GateSizes check_gate(const Tensor& a, const Tensor& A_log, const DecayGateOptions&);

inline double sigmoid(double x) {
    const double e = std::exp(-std::abs(x));
    return (x < 0 ? e : 1) / (1 + e);
}
// log(1 + e^x) without the exponential of a positive number.
inline double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

// The log decay of one number; `rate` is e^A_log.
inline double log_decay(double a, double rate) { return -rate * softplus(a); }
inline double bounded_log_decay(double a, double rate, double bound) { return bound * sigmoid(rate * a); }

}  // namespace around
}  // namespace causeway
