// Tensors for tests: reproducible elements of both signs, and shapes to sweep.
#pragma once

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/tensor/tensor.hpp"

namespace causeway {

inline constexpr double NaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double Inf = std::numeric_limits<double>::infinity();

inline Tensor sample(const Shape& shape, unsigned seed, DType type = DType::f64) {
    std::mt19937 generator(seed);
    std::normal_distribution<double> normal;
    Tensor a(type, shape);
    for (Index i = 0; i < a.size(); ++i) a.set(i, normal(generator));
    return a;
}

inline Tensor values(std::initializer_list<double> list, DType type = DType::f64) {
    Tensor a(type, Shape{static_cast<Index>(list.size())});
    Index i = 0;
    for (double v : list) a.set(i++, v);
    return a;
}

// Largest |a - b|; infinite where the shapes differ, NaN where one of the elements is.
inline double distance(const Tensor& a, const Tensor& b) {
    if (a.shape() != b.shape()) return std::numeric_limits<double>::infinity();
    double most = 0;
    for (Index i = 0; i < a.size(); ++i) {
        const double d = std::abs(a.get(i) - b.get(i));
        if (!(d <= most)) most = d;
        if (most != most) break;
    }
    return most;
}

}  // namespace causeway
