// Bounds of sums and products on their own (claims D1, E1, E4, G10, H2). Float32 or Float64 as T says, nothing fused.
#pragma once

#include <span>

#include "core/bounds/claim.hpp"

namespace causeway::bounds {

// D1: b M c as ((b c) M), an entry of (b cᵀ) ⊙ M, and as ((b M) c), of diag(b) M diag(c), relative to the exact
// product.
template <class T>
struct Sides {
    double off, apart;  // the larger error of the two; their difference

    Sides(double b, double M, double c) {
        const Unfused<T> x(static_cast<T>(b)), m(static_cast<T>(M)), y(static_cast<T>(c));
        const Long exact = static_cast<Long>(b) * M * c, one = (x * y * m).value, other = (x * m * y).value;
        const auto relative = [&](Long error) { return error == 0 ? 0 : static_cast<double>(std::abs(error / exact)); };
        off = worst(relative(one - exact), relative(other - exact));
        apart = relative(one - other);
    }
};

// E1: the sum x_i = λ x_{i-1} + v_i, its largest error against u (1 + λ)/(1 - λ)² max|v|.
template <class T>
Row discounted_sum(std::span<const double> v, double lambda, double u) {
    Unfused<T> got(static_cast<T>(v[0]));
    Long exact = v[0];
    double error = 0, largest = std::abs(v[0]);
    for (std::size_t i = 1; i < v.size(); ++i) {
        got = Unfused<T>(static_cast<T>(lambda)) * got + Unfused<T>(static_cast<T>(v[i])),
        exact = lambda * exact + v[i];
        error = worst(error, static_cast<double>(std::abs(got.value - exact)));
        largest = std::max(largest, std::abs(v[i]));
    }
    return {"|x̂_i - x_i|", error, u * largest * (1 + lambda) / ((1 - lambda) * (1 - lambda))};
}

// E4: the product of gates, from 1 on, and its relative error.
template <class T>
class RunningProduct {
public:
    void multiply(double gate) { got_ = Unfused<T>(static_cast<T>(gate)) * got_, exact_ *= gate; }
    double exact() const { return static_cast<double>(exact_); }
    double error() const { return got_.value == exact_ ? 0 : static_cast<double>(std::abs(got_.value / exact_ - 1)); }

private:
    Unfused<T> got_ = T(1);
    Long exact_ = 1;
};

// G10: carries of blocks, one number each, rebuilt from the last by subtraction: the largest error against
// 2 u T max|C|.
template <class T>
Row rebuilt_carries(std::span<const double> x, double u) {
    std::vector<Unfused<T>> kept{Unfused<T>(T(0))};
    double largest = 0, error = 0;
    for (const double y : x) {
        kept.push_back(kept.back() + Unfused<T>(static_cast<T>(y)));
        largest = std::max(largest, std::abs(static_cast<double>(kept.back().value)));
    }
    Unfused<T> C = kept.back();
    for (std::size_t i = x.size(); i-- > 0;) {
        C = C + Unfused<T>(static_cast<T>(-x[i]));
        error = worst(error, std::abs(static_cast<double>(C.value) - static_cast<double>(kept[i].value)));
    }
    return {"|Ĉ - C|", error, 2 * u * real(static_cast<Index>(x.size())) * largest};
}

// H2: Z(ζ)/Z = ⟨e^y⟩ under the softmax of s, against its series to the moment m: |R| ≤ x^(m+1) e^x/(m+1)!, x = max |y|.
Row moments(std::span<const double> s, std::span<const double> y, Index m);

}  // namespace causeway::bounds
