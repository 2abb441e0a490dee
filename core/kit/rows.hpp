// Rows of numbers, entry by entry, in vectors.
#pragma once

#include <algorithm>

#include "core/kit/simd.hpp"

namespace causeway::kit {

// into = x ⊙ y (into may be either).
template <class T>
inline void multiply_row(T* into, const T* x, const T* y, Index n) {
    constexpr Index L = simd::lanes<T>;
    Index i = 0;
    for (; i + L <= n; i += L) simd::store(into + i, simd::load(x + i) * simd::load(y + i));
    for (; i < n; ++i) into[i] = x[i] * y[i];
}

// into = y x.
template <class T>
inline void multiply_row(T* into, const T* x, T y, Index n) {
    constexpr Index L = simd::lanes<T>;
    Index i = 0;
    for (; i + L <= n; i += L) simd::store(into + i, simd::load(x + i) * y);
    for (; i < n; ++i) into[i] = x[i] * y;
}

// into += factor · x ⊙ y, n rounded up to whole vectors.
template <class T>
inline void add_products(T* into, const T* x, const T* y, Index n, T factor = T(1)) {
    for (Index i = 0; i < n; i += simd::lanes<T>)
        simd::store(into + i, simd::load(into + i) + factor * simd::load(x + i) * simd::load(y + i));
}

// into += x, n rounded up to whole vectors.
template <class T>
inline void add_rows(T* into, const T* x, Index n) {
    for (Index i = 0; i < n; i += simd::lanes<T>) simd::store(into + i, simd::load(into + i) + simd::load(x + i));
}

// n rows of `width` numbers into rows of `padded`, times `scale` and with `fill` behind them.
template <class T>
void pad_rows(const T* from, Index n, Index width, T* into, Index padded, T fill, T scale) {
    for (Index t = 0; t < n; ++t) {
        multiply_row(into + t * padded, from + t * width, scale, width);
        std::fill_n(into + t * padded + width, padded - width, fill);
    }
}

}  // namespace causeway::kit
