// Rows of length one, and rows divided by the root of their mean square, gated: as models have them around q, k and the
// output of linear attention.
#pragma once

#include <cmath>
#include <optional>
#include <string>

#include "core/calls/around.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway {

// y = x / √(Σ x² + ε) over the last dimension. Float16 and BFloat16 are computed in Float32, sums of squares in
// Float64. Throws Error naming the argument.
Tensor l2norm(const Tensor& x, const LengthOptions& = {});

// The gradient of <y, dy>.
Tensor l2norm_grad(const Tensor& x, const Tensor& dy, const LengthOptions& = {});

// y = x / √(mean x² + ε) ⊙ weight ⊙ f(gate) over the last dimension; weight [width] and gate, of the shape of x, may be
// left out. f is silu(g) = g sigmoid(g), or sigmoid. Types as for l2norm.
Tensor rms_norm(const Tensor& x, const NormOptions& = {});

struct NormGradient {
    Tensor dx;
    std::optional<Tensor> dweight, dgate;  // where they were given, with their shapes and types
};

// The gradient of <y, dy>.
NormGradient rms_norm_grad(const Tensor& x, const Tensor& dy, const NormOptions& = {});

namespace around {

// Throws Error unless x has rows and eps is a number that is not negative.
void check_rows(const Tensor& x, double eps, const std::string& prefix = "");

// A gated norm. Looks at shapes and types alone. prefix: of the names of its options in messages.
struct NormSizes {
    DType compute;
    Index width;
    bool silu;
};
NormSizes check_norm(const Tensor& x, const NormOptions&, const std::string& prefix = "");

// Σ f(x_i) in eight parts, so that it is not one long chain of additions.
template <class T, class F>
double sum_of(const T* x, Index n, F&& f) {
    constexpr Index parts = 8;
    double part[parts] = {};
    Index i = 0;
    for (; i + parts <= n; i += parts)
        for (Index p = 0; p < parts; ++p) part[p] += f(static_cast<double>(x[i + p]));
    for (; i < n; ++i) part[0] += f(static_cast<double>(x[i]));
    return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}

template <class T>
double sum_of_squares(const T* x, Index n) {
    return sum_of(x, n, [](double e) { return e * e; });
}

// The factors that make a row of length one, and of mean square one.
template <class T>
T length_factor(const T* x, Index n, double eps) {
    return static_cast<T>(1 / std::sqrt(sum_of_squares(x, n) + eps));
}
template <class T>
T rms_factor(const T* x, Index n, double eps) {
    return static_cast<T>(1 / std::sqrt(sum_of_squares(x, n) / static_cast<double>(n) + eps));
}

}  // namespace around
}  // namespace causeway
