// Functions of single numbers on rows.
#pragma once

#include <cmath>

#include "core/model/activations.hpp"
#include "core/model/blocks/rows.hpp"

namespace causeway::model {

// Calls use with the function, of a vector; gelu goes through the lanes one by one.
template <class Use>
void with_activation(Activation f, Use&& use) {
    using V = simd::Vector<float>;
    switch (f) {
        case Activation::none: return use([](const V& x) { return x; });
        case Activation::sigmoid: return use([](const V& x) { return sigmoid(x); });
        case Activation::silu: return use([](const V& x) { return x * sigmoid(x); });
        case Activation::gelu:
            use([](V x) {
                for (int i = 0; i < simd::lanes<float>; ++i) x[i] *= 0.5f * (1 + std::erf(x[i] * 0.70710678118654752f));
                return x;
            });
    }
}

// y = y ⊙ f(x), n rows of `width` numbers each.
inline void multiply_by(float* y, const float* x, Index n, Index width, Activation f) {
    with_activation(f, [&](auto&& function) {
        over_rows(n, width, [&](Index first, Index rows) {
            each_vector(y + first * width, x + first * width, rows * width,
                        [&](const auto& a, const auto& b) { return a * function(b); });
        });
    });
}

// y = f(y).
inline void activate(float* y, Index n, Index width, Activation f) {
    with_activation(f, [&](auto&& function) {
        over_rows(n, width, [&](Index first, Index rows) {
            each_vector(y + first * width, y + first * width, rows * width,
                        [&](const auto& a, const auto&) { return function(a); });
        });
    });
}

}  // namespace causeway::model
