// A number that counts what is done with it. A definition instantiated with Counted computes in Float64 and counts the
// operations it really executes; the counts are compared with the closed forms of the documents, never assumed.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/measure/number_traits.hpp"

namespace causeway {

struct OperationCount {  // a subtraction is an add
    std::int64_t multiplies = 0, adds = 0, exponentials = 0, divisions = 0;
    bool operator==(const OperationCount&) const = default;
    OperationCount& operator+=(const OperationCount& other) {
        multiplies += other.multiplies;
        adds += other.adds;
        exponentials += other.exponentials;
        divisions += other.divisions;
        return *this;
    }
};

// Operations counted by this thread since it last set them to {}.
inline thread_local OperationCount counted;

struct Counted {  // a double whose arithmetic counts
    double value = 0;

    Counted() = default;
    Counted(double x) : value(x) {}
    explicit operator double() const { return value; }

    friend Counted operator*(Counted a, Counted b) { return ++counted.multiplies, Counted(a.value * b.value); }
    friend Counted operator+(Counted a, Counted b) { return ++counted.adds, Counted(a.value + b.value); }
    friend Counted operator-(Counted a, Counted b) { return ++counted.adds, Counted(a.value - b.value); }
    friend Counted operator/(Counted a, Counted b) { return ++counted.divisions, Counted(a.value / b.value); }
    friend Counted exp(Counted a) { return ++counted.exponentials, Counted(std::exp(a.value)); }
    Counted& operator*=(Counted b) { return *this = *this * b; }
    Counted& operator+=(Counted b) { return *this = *this + b; }
    Counted& operator-=(Counted b) { return *this = *this - b; }
    Counted& operator/=(Counted b) { return *this = *this / b; }
    friend bool operator==(Counted a, Counted b) { return a.value == b.value; }
    friend bool operator<(Counted a, Counted b) { return a.value < b.value; }
};

}  // namespace causeway

template <>
struct Eigen::NumTraits<causeway::Counted> : causeway::NumberTraits<causeway::Counted, double> {};
