// Forward-mode differentiation: a number with its slope in one direction. A definition instantiated with Dual<double>
// gives the derivative beside the value, with Dual<Dual<double>> the second one; nothing is shared with a derivative by
// hand.
#pragma once

#include <cmath>

namespace causeway {

// value + slope ε with ε² = 0.
template <class T>
struct Dual {
    T value{}, slope{};

    Dual() = default;
    Dual(double x) : value(x), slope(0) {}
    Dual(T x, T direction) : value(x), slope(direction) {}

    friend Dual operator+(const Dual& a, const Dual& b) { return {a.value + b.value, a.slope + b.slope}; }
    friend Dual operator-(const Dual& a, const Dual& b) { return {a.value - b.value, a.slope - b.slope}; }
    friend Dual operator*(const Dual& a, const Dual& b) {
        return {a.value * b.value, a.slope * b.value + a.value * b.slope};
    }
    friend Dual operator/(const Dual& a, const Dual& b) {
        return {a.value / b.value, (a.slope - a.value / b.value * b.slope) / b.value};
    }
    friend Dual exp(const Dual& a) {
        using std::exp;
        const T e = exp(a.value);
        return {e, e * a.slope};
    }
    friend Dual log(const Dual& a) {
        using std::log;
        return {log(a.value), a.slope / a.value};
    }
    Dual& operator+=(const Dual& b) { return *this = *this + b; }
    Dual& operator-=(const Dual& b) { return *this = *this - b; }
    Dual& operator*=(const Dual& b) { return *this = *this * b; }
    Dual& operator/=(const Dual& b) { return *this = *this / b; }
    friend bool operator<(const Dual& a, const Dual& b) { return a.value < b.value; }
    friend bool operator==(const Dual& a, const Dual& b) { return a.value == b.value; }
};

}  // namespace causeway
