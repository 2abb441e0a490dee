// What the tests of the gradients share: gradients of a call, and how far two of them are apart.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/gradient/causal_linear_attention_grad.hpp"
#include "core/gradient/linear_attention_grad.hpp"
#include "tests/core/exact/problems.hpp"
#include "tests/core/gated/problems.hpp"

namespace causeway::test {

// Normal numbers that are Float32, stored as Float64.
inline Tensor random_tensor(const Shape& shape, unsigned seed) {
    std::mt19937_64 generator(seed);
    std::normal_distribution<double> normal;
    Tensor out(DType::f64, shape);
    for (Index i = 0; i < out.size(); ++i) out.set(i, static_cast<float>(normal(generator)));
    return out;
}

// A problem of the gated family with what arrives at its outputs.
struct GradientInputs {
    GatedInputs in;
    Tensor dO;
    std::optional<Tensor> dstate;

    GradientInputs to(DType type) const {
        GradientInputs out{in.to(type), dO.to(type), dstate};
        if (dstate) out.dstate = dstate->to(type == DType::f64 ? DType::f64 : DType::f32);
        return out;
    }
};

inline GradientInputs gradient_inputs(const GatedCase& c) {
    return {gated_inputs(c), random_tensor({c.batch, c.heads * c.group, c.N, c.dv}, c.seed + 1000),
            random_tensor({c.batch, c.heads, c.dk, c.dv}, c.seed + 2000)};
}

inline LinearGradient gradient_of(const GradientInputs& g, const std::string& mode, Index chunk = 64) {
    LinearOptions o = g.in.options;
    o.mode = mode;
    o.chunk = chunk;
    return linear_attention_grad(g.in.q, g.in.k, g.in.v, g.dO, o, g.dstate);
}

// The gradients by name.
inline std::map<std::string, Tensor> named(const LinearGradient& g) {
    std::map<std::string, Tensor> out{{"dq", g.dq}, {"dk", g.dk}, {"dv", g.dv}, {"dstate", g.dstate}};
    if (g.dlog_decay) out["dlog_decay"] = *g.dlog_decay;
    if (g.dbeta) out["dbeta"] = *g.dbeta;
    return out;
}

inline std::map<std::string, Tensor> named(const CausalGradient& g) {
    std::map<std::string, Tensor> out{{"dB", g.dB}, {"dC", g.dC}, {"dV", g.dV}};
    if (!g.ddecay.empty()) {
        out["ddecay"] = Tensor(DType::f64, {static_cast<Index>(g.ddecay.size())});
        for (std::size_t i = 0; i < g.ddecay.size(); ++i) out["ddecay"].set(static_cast<Index>(i), g.ddecay[i]);
    }
    if (g.dstate) out["dstate"] = *g.dstate;
    return out;
}

// "" when every gradient agrees within `tolerance` in the Frobenius norm, else which does not.
template <class Gradient>
std::string difference(const Gradient& got, const Gradient& want, double tolerance) {
    const auto a = named(got), b = named(want);
    if (a.size() != b.size()) return "not the same gradients";
    for (const auto& [name, expected] : b) {
        if (a.count(name) == 0) return name + " is missing";
        const double error = relative_error(a.at(name), expected);
        if (!(error <= tolerance)) return sentence(name, ": relative error ", error);
    }
    return "";
}

template <class Gradient>
std::string difference_in_bits(const Gradient& got, const Gradient& want) {
    const auto a = named(got), b = named(want);
    for (const auto& [name, expected] : b)
        if (a.count(name) == 0 || !same_bits(a.at(name), expected)) return name + " differs";
    return "";
}

inline double inner(const Tensor& a, const Tensor& b) {
    double sum = 0;
    for (Index i = 0; i < a.size(); ++i) sum += a.get(i) * b.get(i);
    return sum;
}

// (f(x + h) - f(x - h)) / 2h for every element of x, h = 1e-5; x is as before afterwards.
inline Tensor central_differences(Tensor x, const std::function<double()>& f) {
    constexpr double h = 1e-5;
    Tensor out(DType::f64, x.shape());
    for (Index i = 0; i < x.size(); ++i) {
        const double before = x.get(i);
        x.set(i, before + h);
        const double above = f();
        x.set(i, before - h);
        const double below = f();
        x.set(i, before);
        out.set(i, (above - below) / (2 * h));
    }
    return out;
}

}  // namespace causeway::test
