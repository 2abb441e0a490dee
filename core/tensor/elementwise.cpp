#include "core/tensor/elementwise.hpp"

#include "core/tensor/functions.hpp"
#include "core/tensor/rearrange.hpp"  // assign
#include "core/tensor/walk.hpp"

namespace causeway {

using functions::with_function;

namespace {

// Calls f with a value of the computing type.
template <class F>
decltype(auto) visit_computing(DType t, F&& f) {
    return t == DType::f64 ? f(double{}) : f(float{});
}

// out = f(x), which may be one tensor.
template <class T, class F>
void each(const Tensor& x, Tensor& out, F f) {
    const T* from = x.data<T>();
    T* into = out.data<T>();
    constexpr Index piece = 1 << 15;
    const Index n = x.size();
    parallel_for((n + piece - 1) / piece, [=](Index p) {
        for (Index i = p * piece; i < std::min(n, (p + 1) * piece); ++i) into[i] = f(from[i]);
    });
}

// out = f(a, b), broadcast to the shape of `out`, which may be one of them if it has that shape.
template <class T, class F>
void each(const Tensor& a, const Tensor& b, Tensor& out, F f) {
    if (out.size() == 0) return;
    const Shape& shape = out.shape();
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
            const T repeated = *y;  // which the compiler could not know to be the same, were `out` among the operands
            for (Index i = 0; i < n; ++i) z[i] = f(x[i], repeated);
        } else if (b_moves) {
            const T repeated = *x;
            for (Index i = 0; i < n; ++i) z[i] = f(repeated, y[i]);
        } else {
            std::fill_n(z, n, f(*x, *y));
        }
    });
}

// The clamp of one element.
template <class T>
auto clamped(double low, double high) {
    if (!(low <= high)) fail("clamp: low is ", low, " and high is ", high, ", expected low <= high");
    const T min = static_cast<T>(low), max = static_cast<T>(high);
    return [=](T v) { return v < min ? min : v > max ? max : v; };
}

// use(x, out, zero) on a tensor x of the elements of `a` in the type they are computed in, and `out` for the results,
// which end in `a`.
template <class Use>
void in_place(Tensor& a, DType type, Use&& use) {
    Tensor x = a.to(type);  // `a` itself where it has that type
    visit_computing(type, [&](auto zero) { use(x, zero); });
    if (type == a.dtype()) return;
    const Tensor back = x.to(a.dtype());
    std::copy_n(back.raw(), back.bytes(), a.raw());
}

// The shape of `b` must broadcast to that of `a`, which stays.
void check_fits(const Tensor& a, const Tensor& b, const char* function) {
    bool fits = b.ndim() <= a.ndim();
    for (int i = 0; fits && i < b.ndim(); ++i) fits = b.shape().back(i) == a.shape().back(i) || b.shape().back(i) == 1;
    if (!fits)
        fail(function, ": B: shape ", b.shape().text(), ", expected one that repeats to the ", a.shape().text(),
             " of A, which keeps its shape");
}

template <class Use>
void in_place(Tensor& a, const Tensor& b, const char* function, Use&& use) {
    check_fits(a, b, function);
    const DType type = promote(a.dtype(), b.dtype());
    const Tensor y = b.to(type);
    in_place(a, type, [&](Tensor& x, auto zero) { use(x, y, zero); });
}

}  // namespace

const char* name(Unary op) noexcept {
    constexpr const char* names[] = {"-",     "abs",  "sign",  "exp",  "log", "sqrt",    "sin",   "cos",     "tanh",
                                     "floor", "ceil", "round", "relu", "elu", "sigmoid", "isnan", "isfinite"};
    return names[static_cast<int>(op)];
}

const char* name(Binary op) noexcept {
    constexpr const char* names[] = {"+", "-", "times", "/", "pow", "eq", "ne", "lt", "le", "gt", "ge", "max", "min"};
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
            const int of_a = a.ndim() - i, of_b = b.ndim() - i;  // counted from 1
            const std::string shapes = sentence(operation, ": shapes ", a.text(), " and ", b.text(), " do not match: ");
            if (of_a == of_b) fail(shapes, "dimension ", of_a, " is ", a.back(i), " and ", b.back(i));
            fail(shapes, "dimension ", of_a, " of the first is ", a.back(i), ", dimension ", of_b, " of the second ",
                 b.back(i));
        }
        out[out.ndim() - 1 - i] = m == 1 ? n : m;
    }
    return out;
}

Tensor apply(Unary op, const Tensor& a) {
    const Tensor x = a.to(computing_type(a.dtype()));
    Tensor out(x.dtype(), x.shape());
    visit_computing(x.dtype(), [&](auto zero) { with_function(op, [&](auto f) { each<decltype(zero)>(x, out, f); }); });
    return out;
}

double apply(Unary op, double x) {
    return with_function(op, [x](auto f) { return f(x); });
}

Tensor apply(Binary op, const Tensor& a, const Tensor& b) {
    const Shape shape = broadcast(a.shape(), b.shape(), name(op));
    const DType type = promote(a.dtype(), b.dtype());
    const Tensor x = a.to(type), y = b.to(type);
    Tensor out(type, shape);
    visit_computing(type, [&](auto zero) { with_function(op, [&](auto f) { each<decltype(zero)>(x, y, out, f); }); });
    return out;
}

double apply(Binary op, double a, double b) {
    return with_function(op, [=](auto f) { return f(a, b); });
}

Tensor scalar(double value, DType t) { return Tensor::full(computing_type(t), Shape{}, value); }

Tensor clamp(const Tensor& a, double low, double high) {
    const Tensor x = a.to(computing_type(a.dtype()));
    Tensor out(x.dtype(), x.shape());
    visit_computing(x.dtype(), [&](auto zero) { each<decltype(zero)>(x, out, clamped<decltype(zero)>(low, high)); });
    return out;
}

Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b) {
    const Shape shape = broadcast(mask.shape(), broadcast(a.shape(), b.shape(), "where"), "where");
    const DType type = promote(a.dtype(), b.dtype());
    const Tensor m = mask.to(computing_type(mask.dtype())), x = a.to(type), y = b.to(type);
    Tensor out(type, shape);
    if (out.size() == 0) return out;
    const auto strides = [&](const Tensor& t) { return broadcast_strides(t.shape(), shape); };
    const Walk<3> walk(shape, {strides(m), strides(x), strides(y)});
    visit_computing(m.dtype(), [&](auto of_mask) {
        visit_computing(type, [&](auto zero) {
            using T = decltype(zero);
            const auto* const masks = m.data<decltype(of_mask)>();
            const T* const first = x.data<T>();
            const T* const second = y.data<T>();
            T* const into = out.data<T>();
            walk.run([&](const auto& offsets, Index position, Index n) {
                for (Index i = 0; i < n; ++i)
                    into[position + i] = masks[offsets[0] + i * walk.step(0)] != 0
                                             ? first[offsets[1] + i * walk.step(1)]
                                             : second[offsets[2] + i * walk.step(2)];
            });
        });
    });
    return out;
}

Tensor outer(const Tensor& a, const Tensor& b) {
    const auto with_one = [](const Tensor& x, const char* argument, bool behind) {
        const int n = x.ndim();
        if (n == 0 || n == Shape::max_ndim)
            fail("outer: ", argument, ": ", x.summary(), ", expected 1 to ", Shape::max_ndim - 1, " dimensions");
        Shape shape;
        for (int i = 0; i + 1 < n; ++i) shape.push_back(x.shape()[i]);
        shape.push_back(behind ? x.shape().back() : 1);
        shape.push_back(behind ? 1 : x.shape().back());
        return x.reshape(shape);
    };
    const Tensor x = with_one(a, "a", true), y = with_one(b, "b", false);
    broadcast(x.shape(), y.shape(), "outer");  // so that a message names it
    return apply(Binary::multiply, x, y);
}

void apply_to(Tensor& a, Unary op) {
    in_place(a, computing_type(a.dtype()),
             [&](Tensor& x, auto zero) { with_function(op, [&](auto f) { each<decltype(zero)>(x, x, f); }); });
}

void apply_to(Tensor& a, Binary op, const Tensor& b, const char* function) {
    in_place(a, b, function, [&](Tensor& x, const Tensor& y, auto zero) {
        with_function(op, [&](auto f) { each<decltype(zero)>(x, y, x, f); });
    });
}

void add_to(Tensor& a, const Tensor& b, double factor, const char* function) {
    in_place(a, b, function, [&](Tensor& x, const Tensor& y, auto zero) {
        using T = decltype(zero);
        each<T>(x, y, x, [c = static_cast<T>(factor)](T v, T w) { return v + c * w; });
    });
}

void clamp_to(Tensor& a, double low, double high) {
    in_place(a, computing_type(a.dtype()),
             [&](Tensor& x, auto zero) { each<decltype(zero)>(x, x, clamped<decltype(zero)>(low, high)); });
}

void copy_to(Tensor& a, const Tensor& b, const char* function) {
    check_fits(a, b, function);
    Box whole;
    for (int i = 0; i < a.ndim(); ++i) whole.count[static_cast<std::size_t>(i)] = a.shape()[i];
    assign(a, whole, b);
}

}  // namespace causeway
