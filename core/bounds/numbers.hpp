// Roundings, and the arithmetic that bounds on them are checked in.
#pragma once

#include <bit>
#include <cmath>
#include <vector>

#include "core/base/eigen.hpp"
#include "core/base/memory.hpp"  // Index
#include "core/measure/number_traits.hpp"

namespace causeway::bounds {

using Long = long double;
using Point = std::vector<double>;
using Matrix = Eigen::MatrixXd;
using LongMatrix = Eigen::Matrix<Long, Eigen::Dynamic, Eigen::Dynamic>;

inline constexpr double u32 = 0x1p-24, u64 = 0x1p-53;  // half a unit in the last place of 1
inline constexpr double u_long = 0x1p-64;              // of extended precision, which errors are measured against

// The error of k roundings.
inline double e(double k, double u) { return k * u / (1 - k * u); }
// The same, and what as many roundings of the measuring arithmetic add.
inline double budget(double k, double u) { return e(k, u) + e(k, u_long); }

// Of bounds that inputs attain, over the reals: what the comparison itself rounds.
inline constexpr double own_roundings = 1 + 1e-9;

inline double real(Index n) { return static_cast<double>(n); }
inline double ln(Index n) { return std::log(real(n)); }
inline Index ceil_lg(Index n) { return static_cast<Index>(std::bit_width(static_cast<std::size_t>(n - 1))); }
inline Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

// Larger of two numbers; NaN stays.
inline double worst(double a, double b) { return a > b || std::isnan(a) ? a : b; }

// A real number whose products are rounded before they are added: no contraction into fused operations.
template <class T>
struct Unfused {
    T value = 0;
    Unfused() = default;
    Unfused(T x) : value(x) {}
    friend Unfused operator*(Unfused a, Unfused b) {
        const volatile T rounded_product = a.value * b.value;
        return Unfused(rounded_product);
    }
    friend Unfused operator+(Unfused a, Unfused b) { return Unfused(a.value + b.value); }
    Unfused& operator*=(Unfused b) { return *this = *this * b; }
    Unfused& operator+=(Unfused b) { return *this = *this + b; }
};

}  // namespace causeway::bounds

template <class T>
struct Eigen::NumTraits<causeway::bounds::Unfused<T>> : causeway::NumberTraits<causeway::bounds::Unfused<T>, T> {};
