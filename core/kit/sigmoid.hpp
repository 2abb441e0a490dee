// The logistic function of a vector.
#pragma once

#include "core/kit/exp.hpp"

namespace causeway::simd {

// e^x / (1 + e^x) without the exponential of a positive number.
template <class T>
inline __attribute__((always_inline)) Vector<T> sigmoid(const Vector<T>& x) {
    const Vector<T> e = exp<T>(x < 0 ? x : -x);
    return (x < 0 ? e : Vector<T>{} + T(1)) / (e + T(1));
}

}  // namespace causeway::simd
