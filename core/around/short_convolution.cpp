#include "core/around/short_convolution.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/around/parameters.hpp"
#include "core/kit/check.hpp"
#include "core/kit/sigmoid.hpp"
#include "core/kit/spread.hpp"

namespace causeway {
namespace around {
namespace {

// The input of tap `tap` at token t of a sequence: in its rows, or in the window before them.
template <class T>
const T* input(const T* x, const T* window, Index t, Index tap, Index taps, Index channels) {
    const Index at = t - (taps - 1) + tap;
    return at >= 0 ? x + at * channels : window + (taps - 1 + at) * channels;
}

// Rows that a task computes: what is less is not worth waking a thread for.
constexpr Index numbers_of_a_task = 1 << 14;

}  // namespace

template <class T>
void Convolution<T>::run(const T* x, const T* window, T* y) const {
    constexpr Index L = simd::lanes<T>;
    const Index rows = std::max<Index>(numbers_of_a_task / std::max<Index>(channels * taps, 1), 1);
    struct Task {
        Index sequence, first;
    };
    std::vector<Task> tasks;
    for (std::size_t s = 0; s < sequences.size(); ++s)
        for (Index t = 0; t < sequences[s].n; t += rows) tasks.push_back({static_cast<Index>(s), t});
    const auto token = [&](const T* from, const T* before, Index t, T* to) {
        if (bias) std::copy_n(bias, channels, to);
        else std::fill_n(to, channels, T(0));
        for (Index tap = 0; tap < taps; ++tap) {
            const T* in = input(from, before, t, tap, taps, channels);
            for (Index c = 0; c < channels; ++c) to[c] += weight[c * taps + tap] * in[c];
        }
        if (!silu) return;
        Index c = 0;
        for (; c + L <= channels; c += L) {
            const simd::Vector<T> z = simd::load(to + c);
            simd::store(to + c, z * simd::sigmoid<T>(z));
        }
        if (c < channels) {
            const simd::Vector<T> z = simd::load_part(to + c, channels - c);
            simd::store_part(to + c, z * simd::sigmoid<T>(z), channels - c);
        }
    };
    const auto compute = [&](Index i) {
        const Task& task = tasks[static_cast<std::size_t>(i)];
        const kit::Span& s = sequences[static_cast<std::size_t>(task.sequence)];
        const T* before = window + task.sequence * (taps - 1) * channels;
        for (Index t = task.first; t < std::min(task.first + rows, s.n); ++t)
            token(x + s.first * channels, before, t, y + (s.first + t) * channels);
    };
    if (tasks.size() == 1) compute(0);
    else parallel_for(static_cast<Index>(tasks.size()), compute);
}

template <class T>
void Convolution<T>::keep(const T* x, T* window) const {
    const Index before = taps - 1;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
        const kit::Span& s = sequences[i];
        const Index kept = std::max<Index>(before - s.n, 0);  // rows of the window that stay in it
        T* rows = window + static_cast<Index>(i) * before * channels;
        std::copy(rows + (before - kept) * channels, rows + before * channels, rows);
        std::copy_n(x + (s.first + s.n - (before - kept)) * channels, (before - kept) * channels,
                    rows + kept * channels);
    }
}

template struct Convolution<float>;
template struct Convolution<double>;

ConvolutionSizes check_convolution(const Tensor& x, const Tensor& weight, const ConvolutionOptions& o) {
    ConvolutionSizes c;
    c.compute = computing_type(x);
    if (x.ndim() != 2 && x.ndim() != 3)
        fail("x: a ", x.summary(), ", expected [batch, length, channels] or [length, channels]");
    c.batch = x.ndim() == 3 ? x.shape()[0] : 1;
    c.N = x.shape().back(1), c.channels = x.shape().back();
    if (weight.ndim() != 2 || weight.shape()[0] != c.channels || weight.shape()[1] < 1)
        fail("weight: ", weight.shape().text(), ", expected ", c.channels, "×taps, a row for each channel of x");
    c.taps = weight.shape()[1];
    c.silu = kit::check_choice("activation", o.activation, calls::convolution_activations()) == 1;
    if (o.cu_seqlens.empty())
        for (Index b = 0; b < c.batch; ++b) c.sequences.push_back({b * c.N, c.N});
    else c.sequences = kit::packed_spans(o.cu_seqlens, c.batch, c.N);
    check_parameter("weight", weight, weight.shape(), c.compute);
    if (o.bias) check_parameter("bias", *o.bias, {c.channels}, c.compute);
    if (o.state) check_parameter("state", *o.state, c.state_shape(), c.compute);
    return c;
}

namespace {

// A call, checked: everything in the type of computation.
struct Call : ConvolutionSizes {
    Tensor x, weight, bias, state;  // bias: empty where there is none; state: a copy or zeros

    template <class T>
    Convolution<T> problem() const {
        Convolution<T> p;
        p.channels = channels, p.taps = taps, p.silu = silu;
        p.weight = weight.data<T>();
        p.bias = bias.size() > 0 ? bias.data<T>() : nullptr;
        p.sequences = sequences;
        return p;
    }
};

Call check(const Tensor& x, const Tensor& weight, const ConvolutionOptions& o) {
    Call c{check_convolution(x, weight, o), {}, {}, {}, {}};
    c.x = x.to(c.compute), c.weight = weight.to(c.compute);
    if (o.bias) c.bias = o.bias->to(c.compute);
    c.state = o.state ? o.state->to(c.compute).copy() : Tensor::zeros(c.compute, c.state_shape());
    return c;
}

template <class T>
ConvolutionResult compute(Call c, DType type) {
    const Convolution<T> p = c.problem<T>();
    Tensor y(c.compute, c.x.shape());
    p.run(c.x.data<T>(), c.state.data<T>(), y.data<T>());
    p.keep(c.x.data<T>(), c.state.data<T>());
    return {y.to(type), c.state};
}

// d silu(z) / dz
template <class T>
T silu_slope(T z) {
    const T e = std::exp(-std::abs(z)), s = (z < 0 ? e : T(1)) / (T(1) + e);
    return s * (T(1) + z * (T(1) - s));
}

// Channels first ... first + n - 1 of a sequence, whose inputs and gradients are taken with the window in front.
template <class T>
class Backward {
public:
    Backward(const Convolution<T>& p, Index first, Index n) : p_(p), first_(first), n_(n), sums_(n * (p.taps + 1)) {
        std::fill_n(sums_.data(), sums_.size(), 0.0);
    }

    void sequence(Index i, const T* x, const T* window, const T* dy, const T* dlast, T* dx, T* dwindow) {
        const auto& s = p_.sequences[static_cast<std::size_t>(i)];
        const Index before = p_.taps - 1, width = p_.channels, rows = s.first * width;
        const T* start = window + i * before * width;
        const auto gradient_row = [&](Index at) {  // row `at` of window and tokens
            return at < before ? dwindow + (i * before + at) * width : dx + rows + (at - before) * width;
        };
        for (Index at = 0; at < before + s.n; ++at) {
            T* to = gradient_row(at);
            for (Index c = first_; c < first_ + n_; ++c)
                to[c] = at < s.n ? T(0) : dlast[(i * before + at - s.n) * width + c];
        }
        for (Index t = 0; t < s.n; ++t) {
            interrupt::check();
            for (Index c = first_; c < first_ + n_; ++c) {
                T slope = dy[rows + t * width + c];
                if (p_.silu) slope *= silu_slope(sum(x + rows, start, t, c));
                double* sums = sums_.data() + (c - first_) * (p_.taps + 1);
                sums[p_.taps] += static_cast<double>(slope);
                for (Index tap = 0; tap < p_.taps; ++tap) {
                    const T in = input(x + rows, start, t, tap, p_.taps, width)[c];
                    sums[tap] += static_cast<double>(slope) * static_cast<double>(in);
                    gradient_row(t + tap)[c] += p_.weight[c * p_.taps + tap] * slope;
                }
            }
        }
    }

    void finish(T* dweight, T* dbias) const {
        for (Index c = 0; c < n_; ++c) {
            const double* sums = sums_.data() + c * (p_.taps + 1);
            for (Index tap = 0; tap < p_.taps; ++tap) dweight[(first_ + c) * p_.taps + tap] = static_cast<T>(sums[tap]);
            if (dbias) dbias[first_ + c] = static_cast<T>(sums[p_.taps]);
        }
    }

private:
    T sum(const T* x, const T* window, Index t, Index c) const {
        T z = p_.bias ? p_.bias[c] : T(0);
        for (Index tap = 0; tap < p_.taps; ++tap)
            z += p_.weight[c * p_.taps + tap] * input(x, window, t, tap, p_.taps, p_.channels)[c];
        return z;
    }

    const Convolution<T>& p_;
    Index first_, n_;
    Buffer<double> sums_;  // [n, taps + 1]: of the weights and, last, of the bias
};

template <class T>
ConvolutionGradient gradient(const Call& c, const Tensor& given_dy, const Tensor& dlast, const Tensor& given_x,
                             const Tensor& given_weight, const ConvolutionOptions& o) {
    const Convolution<T> p = c.problem<T>();
    const Tensor dy = given_dy.to(c.compute);
    Tensor dx(c.compute, c.x.shape()), dweight(c.compute, c.weight.shape()), dbias(c.compute, {c.channels}),
        dstate(c.compute, c.state.shape());
    const auto channels = [&](Index first, Index n) {
        Backward<T> backward(p, first, n);
        for (Index i = 0; i < std::ssize(c.sequences); ++i)
            backward.sequence(i, c.x.data<T>(), c.state.data<T>(), dy.data<T>(), dlast.data<T>(), dx.data<T>(),
                              dstate.data<T>());
        backward.finish(dweight.data<T>(), dbias.data<T>());
    };
    kit::each_block(c.channels, channels, 16);
    ConvolutionGradient out{dx.to(given_x.dtype()), dweight.to(given_weight.dtype()), {}, dstate};
    if (o.bias) out.dbias = dbias.to(o.bias->dtype());
    return out;
}

}  // namespace
}  // namespace around

ConvolutionResult short_convolution(const Tensor& x, const Tensor& weight, const ConvolutionOptions& o) {
    const around::Call c = around::check(x, weight, o);
    return c.compute == DType::f64 ? around::compute<double>(c, x.dtype()) : around::compute<float>(c, x.dtype());
}

ConvolutionGradient short_convolution_grad(const Tensor& x, const Tensor& weight, const Tensor& dy,
                                           const ConvolutionOptions& o, const std::optional<Tensor>& dstate) {
    const around::Call c = around::check(x, weight, o);
    around::check_arriving("dy", dy, x);
    const Tensor dlast = dstate ? around::parameter("dstate", *dstate, c.state.shape(), c.compute)
                                : Tensor::zeros(c.compute, c.state.shape());
    return c.compute == DType::f64 ? around::gradient<double>(c, dy, dlast, x, weight, o)
                                   : around::gradient<float>(c, dy, dlast, x, weight, o);
}

}  // namespace causeway
