#include "core/around/decay_gate.hpp"

#include <vector>

#include "core/around/parameters.hpp"
#include "core/base/text.hpp"
#include "core/kit/spread.hpp"

namespace causeway {
namespace around {

GateSizes check_gate(const Tensor& a, const Tensor& A_log, const DecayGateOptions& o) {
    if (a.ndim() < 2) fail("a: a ", a.summary(), ", expected [batch, heads, length], or [batch, heads, length, width]");
    const bool channels = a.ndim() == 4;
    GateSizes n;
    n.compute = computing_type(a);
    n.batch = a.ndim() == 2 ? 1 : a.shape()[0];
    n.heads = a.shape()[a.ndim() == 2 ? 0 : 1];
    n.N = a.shape()[a.ndim() == 2 ? 1 : 2];
    n.channels = channels ? a.shape()[3] : 1;
    if (A_log.shape() != Shape{n.heads}) fail("A_log: ", A_log.shape().text(), ", expected ", n.heads, ", one a head");
    if (o.dt_bias) {
        const Shape want = channels ? Shape{n.heads, n.channels} : Shape{n.heads};
        if (o.dt_bias->shape() != want) fail("dt_bias: ", o.dt_bias->shape().text(), ", expected ", want.text());
    }
    if (o.lower_bound && !(*o.lower_bound < 0 && std::isfinite(*o.lower_bound)))
        fail("lower_bound: ", number_text(*o.lower_bound), ", expected a number below 0");
    return n;
}

namespace {

// A call, checked.
struct GateCall : GateSizes {
    Tensor a, bias;            // a in the type of computation; bias in Float64, empty where there is none
    std::vector<double> rate;  // e^A_log

    double biased(Index head, Index i, double x) const {
        if (bias.size() == 0) return x;
        return x + bias.data<double>()[head * channels + i % channels];
    }
};

GateCall check(const Tensor& a, const Tensor& A_log, const DecayGateOptions& o) {
    GateCall c{check_gate(a, A_log, o), {}, {}, {}};
    c.a = a.to(c.compute);
    for (Index h = 0; h < c.heads; ++h) c.rate.push_back(std::exp(A_log.get(h)));
    if (o.dt_bias) c.bias = o.dt_bias->to(DType::f64);
    return c;
}

// f(batch and head, head) for each of them, over the threads.
template <class F>
void each_head(const GateCall& c, F&& f) {
    parallel_for(c.batch * c.heads, [&](Index i) { f(i, i % c.heads); });
}

template <class T>
Tensor gates(const GateCall& c, const std::optional<double>& bound) {
    Tensor g(c.compute, c.a.shape());
    const Index n = c.N * c.channels;
    each_head(c, [&](Index at, Index head) {
        const double rate = c.rate[static_cast<std::size_t>(head)];
        for (Index i = 0; i < n; ++i) {
            const double x = c.biased(head, i, static_cast<double>(c.a.data<T>()[at * n + i]));
            g.data<T>()[at * n + i] = static_cast<T>(bound ? bounded_log_decay(x, rate, *bound) : log_decay(x, rate));
        }
    });
    return g;
}

// dg / da and dg / dA_log of a number.
std::pair<double, double> slopes(double x, double rate, const std::optional<double>& bound) {
    if (!bound) return {-rate * sigmoid(x), log_decay(x, rate)};
    const double s = sigmoid(rate * x), slope = *bound * s * (1 - s) * rate;
    return {slope, slope * x};
}

template <class T>
DecayGateGradient gradient(const GateCall& c, const Tensor& a, const Tensor& A_log, const Tensor& dg,
                           const DecayGateOptions& o) {
    const Index n = c.N * c.channels;
    Tensor da(c.compute, c.a.shape());
    Tensor rates = Tensor::zeros(DType::f64, {c.batch * c.heads}),
           biases = Tensor::zeros(DType::f64, {c.batch * c.heads, c.channels});
    each_head(c, [&](Index at, Index head) {
        const double rate = c.rate[static_cast<std::size_t>(head)];
        for (Index i = 0; i < n; ++i) {
            const double x = c.biased(head, i, static_cast<double>(c.a.data<T>()[at * n + i])),
                         arrives = static_cast<double>(dg.data<T>()[at * n + i]);
            const auto [by_a, by_rate] = slopes(x, rate, o.lower_bound);
            da.data<T>()[at * n + i] = static_cast<T>(arrives * by_a);
            biases.data<double>()[at * c.channels + i % c.channels] += arrives * by_a;
            rates.data<double>()[at] += arrives * by_rate;
        }
    });
    const auto summed = [&](const Tensor& each, const Shape& shape) {  // over the batch
        Tensor sum = Tensor::zeros(DType::f64, shape);
        for (Index i = 0; i < each.size(); ++i) sum.data<double>()[i % sum.size()] += each.data<double>()[i];
        return sum;
    };
    DecayGateGradient out{da.to(a.dtype()), summed(rates, A_log.shape()).to(A_log.dtype()), {}};
    if (o.dt_bias) out.ddt_bias = summed(biases, o.dt_bias->shape()).to(o.dt_bias->dtype());
    return out;
}

}  // namespace
}  // namespace around

Tensor decay_gate(const Tensor& a, const Tensor& A_log, const DecayGateOptions& o) {
    const around::GateCall c = around::check(a, A_log, o);
    return (c.compute == DType::f64 ? around::gates<double>(c, o.lower_bound) : around::gates<float>(c, o.lower_bound))
        .to(a.dtype());
}

DecayGateGradient decay_gate_grad(const Tensor& a, const Tensor& A_log, const Tensor& dg, const DecayGateOptions& o) {
    const around::GateCall c = around::check(a, A_log, o);
    around::check_arriving("dg", dg, a);
    const Tensor arrives = dg.to(c.compute);
    return c.compute == DType::f64 ? around::gradient<double>(c, a, A_log, arrives, o)
                                   : around::gradient<float>(c, a, A_log, arrives, o);
}

}  // namespace causeway
