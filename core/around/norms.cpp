#include "core/around/norms.hpp"

#include <algorithm>
#include <vector>

#include "core/around/parameters.hpp"
#include "core/kit/check.hpp"
#include "core/kit/sigmoid.hpp"
#include "core/kit/spread.hpp"

namespace causeway {
namespace around {

void check_rows(const Tensor& x, double eps, const std::string& prefix) {
    if (x.ndim() < 1) fail("x: a number, expected a Tensor with a last dimension");
    if (!(eps >= 0) || !std::isfinite(eps)) fail(prefix, "eps: ", eps, ", expected a number that is not negative");
}

NormSizes check_norm(const Tensor& x, const NormOptions& o, const std::string& prefix) {
    check_rows(x, o.eps, prefix);
    const auto activation = kit::check_choice((prefix + "activation").c_str(), o.activation, calls::gate_activations());
    const NormSizes n{computing_type(x), x.shape().back(), activation == 0};
    if (o.weight) check_parameter(prefix + "weight", *o.weight, {n.width}, n.compute);
    if (o.gate) check_parameter(prefix + "gate", *o.gate, x.shape(), n.compute);
    return n;
}

namespace {

// f(first, rows) over the rows of x, some at a time.
template <class F>
void over_rows(const Tensor& x, F&& f) {
    const Index width = x.shape().back();
    if (x.size() > 0) kit::each_block(x.size() / width, f, std::max<Index>((1 << 13) / width, 1));
}

template <class T>
Tensor lengths(const Tensor& x, double eps) {
    Tensor y(dtype_of<T>, x.shape());
    const Index width = x.shape().back();
    over_rows(x, [&](Index first, Index n) {
        for (Index row = first; row < first + n; ++row) {
            const T* from = x.data<T>() + row * width;
            const T factor = length_factor(from, width, eps);
            for (Index i = 0; i < width; ++i) y.data<T>()[row * width + i] = from[i] * factor;
        }
    });
    return y;
}

// dx = r (dy - y <y, dy>) with y = r x.
template <class T>
Tensor length_gradient(const Tensor& x, const Tensor& dy, double eps) {
    Tensor dx(dtype_of<T>, x.shape());
    const Index width = x.shape().back();
    over_rows(x, [&](Index first, Index n) {
        for (Index row = first; row < first + n; ++row) {
            const T *from = x.data<T>() + row * width, *arrives = dy.data<T>() + row * width;
            const T factor = length_factor(from, width, eps);
            double inner = 0;
            for (Index i = 0; i < width; ++i)
                inner += static_cast<double>(from[i] * factor) * static_cast<double>(arrives[i]);
            for (Index i = 0; i < width; ++i)
                dx.data<T>()[row * width + i] = factor * (arrives[i] - from[i] * factor * static_cast<T>(inner));
        }
    });
    return dx;
}

// A gated norm, checked: everything in the type of computation, weight and gate empty where there are none.
struct NormCall : NormSizes {
    double eps;
    Tensor x, weight, gate;
};

NormCall check(const Tensor& x, const NormOptions& o) {
    NormCall c{check_norm(x, o), o.eps, {}, {}, {}};
    c.x = x.to(c.compute);
    if (o.weight) c.weight = o.weight->to(c.compute);
    if (o.gate) c.gate = o.gate->to(c.compute);
    return c;
}

template <class T>
Tensor norms(const NormCall& c) {
    constexpr Index L = simd::lanes<T>;
    Tensor y(c.compute, c.x.shape());
    over_rows(c.x, [&](Index first, Index n) {
        for (Index row = first; row < first + n; ++row) {
            const T* from = c.x.data<T>() + row * c.width;
            T* to = y.data<T>() + row * c.width;
            const T factor = rms_factor(from, c.width, c.eps);
            for (Index i = 0; i < c.width; ++i) to[i] = from[i] * factor;
            if (c.weight.size() > 0)
                for (Index i = 0; i < c.width; ++i) to[i] *= c.weight.data<T>()[i];
            if (c.gate.size() == 0) continue;
            const T* gate = c.gate.data<T>() + row * c.width;
            const auto gated = [&](const simd::Vector<T>& a, const simd::Vector<T>& g) {
                const simd::Vector<T> s = simd::sigmoid<T>(g);
                return c.silu ? a * (g * s) : a * s;
            };
            Index i = 0;
            for (; i + L <= c.width; i += L) simd::store(to + i, gated(simd::load(to + i), simd::load(gate + i)));
            if (const Index rest = c.width - i; rest > 0)
                simd::store_part(to + i, gated(simd::load_part(to + i, rest), simd::load_part(gate + i, rest)), rest);
        }
    });
    return y;
}

// f(g) and its derivative.
template <class T>
std::pair<T, T> gate_and_slope(T g, bool silu) {
    const T e = std::exp(-std::abs(g)), s = (g < 0 ? e : T(1)) / (T(1) + e);
    if (!silu) return {s, s * (T(1) - s)};
    return {g * s, s * (T(1) + g * (T(1) - s))};
}

// With h = r x and m = weight ⊙ f(gate): dx = r (m ⊙ dy - h mean(h ⊙ m ⊙ dy)). Each block of rows has a sum for the
// weight, and these are added in their order.
template <class T>
NormGradient norm_gradient(const NormCall& c, const Tensor& given, const Tensor& dy, const NormOptions& o) {
    const Index width = c.width, rows = width > 0 ? c.x.size() / width : 0,
                block = std::max<Index>((1 << 13) / std::max<Index>(width, 1), 1), blocks = (rows + block - 1) / block;
    Tensor dx(c.compute, c.x.shape()), dgate(c.compute, c.gate.shape());
    Buffer<double> sums(blocks * width);
    std::fill_n(sums.data(), sums.size(), 0.0);
    over_rows(c.x, [&](Index first, Index n) {
        Buffer<T> through(width);
        for (Index row = first; row < first + n; ++row) {
            const T *x = c.x.data<T>() + row * width, *arrives = dy.data<T>() + row * width;
            const T factor = rms_factor(x, width, c.eps);
            double inner = 0;
            for (Index i = 0; i < width; ++i) {
                const T h = x[i] * factor, w = c.weight.size() > 0 ? c.weight.data<T>()[i] : T(1);
                const auto [f, slope] = c.gate.size() > 0 ? gate_and_slope(c.gate.data<T>()[row * width + i], c.silu)
                                                          : std::pair<T, T>(T(1), T(0));
                through[i] = arrives[i] * w * f;
                inner += static_cast<double>(h) * static_cast<double>(through[i]);
                sums[first / block * width + i] += static_cast<double>(arrives[i] * h * f);
                if (c.gate.size() > 0) dgate.data<T>()[row * width + i] = arrives[i] * h * w * slope;
            }
            const T mean = static_cast<T>(inner / static_cast<double>(width));
            for (Index i = 0; i < width; ++i)
                dx.data<T>()[row * width + i] = factor * (through[i] - x[i] * factor * mean);
        }
    });
    NormGradient out{dx.to(given.dtype()), {}, {}};
    if (o.gate) out.dgate = dgate.to(o.gate->dtype());
    if (!o.weight) return out;
    Tensor dweight = Tensor::zeros(DType::f64, {width});
    for (Index b = 0; b < blocks; ++b)
        for (Index i = 0; i < width; ++i) dweight.data<double>()[i] += sums[b * width + i];
    out.dweight = dweight.to(o.weight->dtype());
    return out;
}

}  // namespace
}  // namespace around

Tensor l2norm(const Tensor& x, const LengthOptions& o) {
    around::check_rows(x, o.eps);
    if (x.dtype() == DType::f64) return around::lengths<double>(x, o.eps);
    return around::lengths<float>(x.to(DType::f32), o.eps).to(x.dtype());
}

Tensor l2norm_grad(const Tensor& x, const Tensor& dy, const LengthOptions& o) {
    around::check_rows(x, o.eps);
    around::check_arriving("dy", dy, x);
    if (x.dtype() == DType::f64) return around::length_gradient<double>(x, dy, o.eps);
    return around::length_gradient<float>(x.to(DType::f32), dy.to(DType::f32), o.eps).to(x.dtype());
}

Tensor rms_norm(const Tensor& x, const NormOptions& o) {
    const around::NormCall c = around::check(x, o);
    return (c.compute == DType::f64 ? around::norms<double>(c) : around::norms<float>(c)).to(x.dtype());
}

NormGradient rms_norm_grad(const Tensor& x, const Tensor& dy, const NormOptions& o) {
    const around::NormCall c = around::check(x, o);
    around::check_arriving("dy", dy, x);
    const Tensor arrives = dy.to(c.compute);
    return c.compute == DType::f64 ? around::norm_gradient<double>(c, x, arrives, o)
                                   : around::norm_gradient<float>(c, x, arrives, o);
}

}  // namespace causeway
