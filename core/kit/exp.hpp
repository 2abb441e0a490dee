// The exponential of a vector.
#pragma once

#include <cstdint>
#include <limits>

#include "core/kit/simd.hpp"

namespace causeway::simd {

// The bits of a vector as whole numbers.
template <class T>
struct BitsOf;
template <>
struct BitsOf<float> {
    typedef std::uint32_t type __attribute__((vector_size(bytes)));
};
template <>
struct BitsOf<double> {
    typedef std::uint64_t type __attribute__((vector_size(bytes)));
};

// e^x = 2^n e^r with n = round(x / ln 2), |r| <= ln 2 / 2: ln 2 in two parts, the first with so few bits that n times
// it is exact; e^r by a polynomial. At most 2 units in the last place off where e^x is a normal number; below 0, above
// Inf; NaN stays.
template <class T>
inline __attribute__((always_inline)) Vector<T> exp(const Vector<T>& x) {
    using Limits = std::numeric_limits<T>;
    using Bits = typename BitsOf<T>::type;
    constexpr bool single = sizeof(T) == 4;
    constexpr int fraction = Limits::digits - 1;
    constexpr T magic =
        T(1.5) * T(std::int64_t(1) << fraction);  // added to a small number leaves it rounded in the low bits
    constexpr T highest = single ? T(88.72283172607421875) : T(709.78271289338397);
    constexpr T lowest = single ? T(-87.33654022216796875) : T(-708.39641853226408);
    constexpr T ln2_high = single ? T(0.693359375) : T(6.93147180369123816490e-01);
    constexpr T ln2_low = single ? T(-2.12194440e-4) : T(1.90821492927058770002e-10);

    const Vector<T> shifted = x * T(1.44269504088896340736) + magic;
    const Vector<T> n = shifted - magic;
    const Vector<T> r = (x - n * ln2_high) - n * ln2_low;
    Vector<T> y;
    if constexpr (single) {  // coefficients of the Cephes library's expf
        y = r * 1.9875691500e-4f + 1.3981999507e-3f;
        y = y * r + 8.3334519073e-3f;
        y = y * r + 4.1665795894e-2f;
        y = y * r + 1.6666665459e-1f;
        y = y * r + 5.0000001201e-1f;
    } else {  // Taylor's: the first term left out is below 4e-18
        y = r * (1 / 6227020800.0) + 1 / 479001600.0;
        y = y * r + 1 / 39916800.0;
        y = y * r + 1 / 3628800.0;
        y = y * r + 1 / 362880.0;
        y = y * r + 1 / 40320.0;
        y = y * r + 1 / 5040.0;
        y = y * r + 1 / 720.0;
        y = y * r + 1 / 120.0;
        y = y * r + 1 / 24.0;
        y = y * r + 1 / 6.0;
        y = y * r + 0.5;
    }
    y = (y * (r * r) + r) + T(1);
    y = reinterpret_cast<Vector<T>>(reinterpret_cast<Bits>(y) + (reinterpret_cast<Bits>(shifted) << fraction));
    y = x <= highest ? y : x * Limits::infinity();
    return x < lowest ? Vector<T>{} : y;
}

// Largest lane; a NaN among others may be passed over.
template <class T>
inline T maximum(const Vector<T>& v) {
    T x[lanes<T>];
    std::memcpy(x, &v, sizeof v);
#pragma GCC unroll 4
    for (int half = lanes<T> / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) x[i] = x[i] < x[i + half] ? x[i + half] : x[i];
    return x[0];
}

}  // namespace causeway::simd
