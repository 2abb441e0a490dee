#include "core/tensor/elementwise.hpp"

#include <cmath>

#include "core/tensor/walk.hpp"

namespace causeway {
namespace {

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
        default: return use([](auto x, auto y) { return one_if<decltype(x)>(x >= y); });
    }
}

// Calls f with a value of the computing type.
template <class F>
decltype(auto) visit_computing(DType t, F&& f) {
    return t == DType::f64 ? f(double{}) : f(float{});
}

template <class T, class F>
Tensor each(const Tensor& x, F f) {
    Tensor out(dtype_of<T>, x.shape());
    const T* from = x.data<T>();
    T* into = out.data<T>();
    constexpr Index piece = 1 << 15;
    const Index n = x.size();
    parallel_for((n + piece - 1) / piece, [=](Index p) {
        for (Index i = p * piece; i < std::min(n, (p + 1) * piece); ++i) into[i] = f(from[i]);
    });
    return out;
}

template <class T, class F>
Tensor each(const Tensor& a, const Tensor& b, const Shape& shape, F f) {
    Tensor out(dtype_of<T>, shape);
    if (out.size() == 0) return out;
    const Walk<2> walk(shape, {broadcast_strides(a.shape(), shape), broadcast_strides(b.shape(), shape)});
    // Inside a row an operand is either contiguous or one repeated element.
    const bool a_moves = walk.step(0) != 0, b_moves = walk.step(1) != 0;
    const T* const a_data = a.data<T>();
    const T* const b_data = b.data<T>();
    T* const out_data = out.data<T>();
    walk.run([=](const auto& offsets, Index position, Index n) {
        const T* x = a_data + offsets[0];
        const T* y = b_data + offsets[1];
        T* z = out_data + position;
        if (a_moves && b_moves) {
            for (Index i = 0; i < n; ++i) z[i] = f(x[i], y[i]);
        } else if (a_moves) {
            for (Index i = 0; i < n; ++i) z[i] = f(x[i], *y);
        } else if (b_moves) {
            for (Index i = 0; i < n; ++i) z[i] = f(*x, y[i]);
        } else {
            std::fill_n(z, n, f(*x, *y));
        }
    });
    return out;
}

}  // namespace

const char* name(Unary op) noexcept {
    constexpr const char* names[] = {"-",     "abs",  "sign",  "exp",  "log", "sqrt",    "sin",   "cos",     "tanh",
                                     "floor", "ceil", "round", "relu", "elu", "sigmoid", "isnan", "isfinite"};
    return names[static_cast<int>(op)];
}

const char* name(Binary op) noexcept {
    constexpr const char* names[] = {"+", "-", "times", "/", "pow", "eq", "ne", "lt", "le", "gt", "ge"};
    return names[static_cast<int>(op)];
}

DType computing_type(DType t) noexcept { return t == DType::f64 ? DType::f64 : DType::f32; }

DType promote(DType a, DType b) noexcept { return a == DType::f64 || b == DType::f64 ? DType::f64 : DType::f32; }

Shape broadcast(const Shape& a, const Shape& b, const char* operation) {
    const Shape& longer = a.ndim() >= b.ndim() ? a : b;
    const Shape& shorter = a.ndim() >= b.ndim() ? b : a;
    Shape out = longer;
    for (int i = 0; i < shorter.ndim(); ++i) {
        const Index m = longer.back(i), n = shorter.back(i);
        if (m != n && m != 1 && n != 1) {
            fail(operation, ": shapes ", a.text(), " and ", b.text(), " do not match: from the right, dimension ",
                 i + 1, " is ", a.back(i), " and ", b.back(i));
        }
        out[out.ndim() - 1 - i] = m == 1 ? n : m;
    }
    return out;
}

Tensor apply(Unary op, const Tensor& a) {
    const Tensor x = a.to(computing_type(a.dtype()));
    return visit_computing(
        x.dtype(), [&](auto zero) { return with_function(op, [&](auto f) { return each<decltype(zero)>(x, f); }); });
}

double apply(Unary op, double x) {
    return with_function(op, [x](auto f) { return f(x); });
}

Tensor apply(Binary op, const Tensor& a, const Tensor& b) {
    const Shape shape = broadcast(a.shape(), b.shape(), name(op));
    const DType type = promote(a.dtype(), b.dtype());
    const Tensor x = a.to(type), y = b.to(type);
    return visit_computing(type, [&](auto zero) {
        return with_function(op, [&](auto f) { return each<decltype(zero)>(x, y, shape, f); });
    });
}

double apply(Binary op, double a, double b) {
    return with_function(op, [=](auto f) { return f(a, b); });
}

Tensor scalar(double value, DType t) { return Tensor::full(computing_type(t), Shape{}, value); }

Tensor clamp(const Tensor& a, double low, double high) {
    if (!(low <= high)) fail("clamp: low is ", low, " and high is ", high, ", expected low <= high");
    const Tensor x = a.to(computing_type(a.dtype()));
    return visit_computing(x.dtype(), [&](auto zero) {
        using T = decltype(zero);
        const T min = static_cast<T>(low), max = static_cast<T>(high);
        return each<T>(x, [=](T v) { return v < min ? min : v > max ? max : v; });
    });
}

}  // namespace causeway
