// The functions on scalars that the operations of elementwise.hpp stand for.
#pragma once

#include <cmath>

#include "core/tensor/elementwise.hpp"

namespace causeway::functions {

template <class T>
T one_if(bool condition) {
    return condition ? T(1) : T(0);
}

template <class T>
T sigmoid(T x) {
    const T e = std::exp(-std::abs(x));  // never the exponential of a positive number
    return (x < 0 ? e : T(1)) / (T(1) + e);
}

// Calls `use` with the function on scalars that the operation stands for.
template <class Use>
decltype(auto) with_function(Unary op, Use&& use) {
    switch (op) {
        case Unary::negate: return use([](auto x) { return -x; });
        case Unary::abs: return use([](auto x) { return std::abs(x); });
        case Unary::sign: return use([](auto x) { return x > 0 ? decltype(x)(1) : x < 0 ? decltype(x)(-1) : x; });
        case Unary::exp: return use([](auto x) { return std::exp(x); });
        case Unary::log: return use([](auto x) { return std::log(x); });
        case Unary::sqrt: return use([](auto x) { return std::sqrt(x); });
        case Unary::sin: return use([](auto x) { return std::sin(x); });
        case Unary::cos: return use([](auto x) { return std::cos(x); });
        case Unary::tanh: return use([](auto x) { return std::tanh(x); });
        case Unary::floor: return use([](auto x) { return std::floor(x); });
        case Unary::ceil: return use([](auto x) { return std::ceil(x); });
        case Unary::round: return use([](auto x) { return std::nearbyint(x); });
        case Unary::relu: return use([](auto x) { return x < 0 ? decltype(x)(0) : x; });
        case Unary::elu: return use([](auto x) { return x > 0 ? x : std::expm1(x); });
        case Unary::sigmoid: return use([](auto x) { return sigmoid(x); });
        case Unary::isnan: return use([](auto x) { return one_if<decltype(x)>(std::isnan(x)); });
        default: return use([](auto x) { return one_if<decltype(x)>(std::isfinite(x)); });
    }
}

template <class Use>
decltype(auto) with_function(Binary op, Use&& use) {
    switch (op) {
        case Binary::add: return use([](auto x, auto y) { return x + y; });
        case Binary::subtract: return use([](auto x, auto y) { return x - y; });
        case Binary::multiply: return use([](auto x, auto y) { return x * y; });
        case Binary::divide: return use([](auto x, auto y) { return x / y; });
        case Binary::power: return use([](auto x, auto y) { return std::pow(x, y); });
        case Binary::eq: return use([](auto x, auto y) { return one_if<decltype(x)>(x == y); });
        case Binary::ne: return use([](auto x, auto y) { return one_if<decltype(x)>(x != y); });
        case Binary::lt: return use([](auto x, auto y) { return one_if<decltype(x)>(x < y); });
        case Binary::le: return use([](auto x, auto y) { return one_if<decltype(x)>(x <= y); });
        case Binary::gt: return use([](auto x, auto y) { return one_if<decltype(x)>(x > y); });
        case Binary::ge: return use([](auto x, auto y) { return one_if<decltype(x)>(x >= y); });
        case Binary::maximum: return use([](auto x, auto y) { return x > y || x != x ? x : y; });
        default: return use([](auto x, auto y) { return x < y || x != x ? x : y; });
    }
}

}  // namespace causeway::functions
