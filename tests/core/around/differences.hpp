// Gradients by central differences, for functions of tensors in Float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>

#include "core/tensor/tensor.hpp"

namespace causeway::test {

inline Tensor drawn(const Shape& shape, unsigned seed, double size = 1) {
    std::mt19937_64 generator(seed);
    std::normal_distribution<double> normal;
    Tensor out(DType::f64, shape);
    for (Index i = 0; i < out.size(); ++i) out.set(i, static_cast<float>(size * normal(generator)));
    return out;
}

inline double inner_product(const Tensor& a, const Tensor& b) {
    double sum = 0;
    for (Index i = 0; i < a.size(); ++i) sum += a.get(i) * b.get(i);
    return sum;
}

// How far `got` is from the differences of f() as the elements of x change, against the largest of them. They are of
// fourth order: near 0 a norm of short rows bends fast.
template <class F>
double off_differences(const Tensor& got, Tensor x, F&& f) {
    if (got.shape() != x.shape()) return INFINITY;
    const double step = 1e-4;
    double worst = 0, largest = 1e-3;
    for (Index i = 0; i < x.size(); ++i) {
        const double before = x.get(i);
        const auto rise = [&](double by) {
            x.set(i, before + by);
            const double above = f();
            x.set(i, before - by);
            const double below = f();
            x.set(i, before);
            return above - below;
        };
        const double slope = (8 * rise(step) - rise(2 * step)) / (12 * step);
        if (!std::isfinite(got.get(i))) return INFINITY;
        worst = std::max(worst, std::abs(slope - got.get(i)));
        largest = std::max(largest, std::abs(slope));
    }
    return worst / largest;
}

}  // namespace causeway::test
