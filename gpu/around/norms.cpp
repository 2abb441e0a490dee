#include "gpu/around/norms.hpp"

#include "core/around/norms.hpp"
#include "core/around/parameters.hpp"
#include "gpu/around/sums.hpp"

namespace causeway::gpu {
namespace around {
namespace {

NormArgs rows_of(const Tensor& x, double eps, bool mean) {
    NormArgs a{};
    a.x = x.data(), a.type = x.type();
    a.width = x.shape().back(), a.rows = x.size() > 0 ? x.size() / a.width : 0;
    a.eps = static_cast<float>(eps), a.mean = mean;
    return a;
}

// A checked call; `weight` keeps what `args` points to.
struct Call {
    Tensor weight;
    NormArgs args;
};

Call check(const Tensor& x, const NormOptions& o) {
    causeway::NormOptions forms;
    forms.weight = form_of(o.weight), forms.gate = form_of(o.gate);
    forms.activation = o.activation, forms.eps = o.eps;
    const auto n = causeway::around::check_norm(x.form(), forms);
    Call c{{}, rows_of(x, o.eps, true)};
    if (o.weight) c.weight = o.weight->to(DType::f32, o.stream), c.args.weight = c.weight.as<float>();
    if (o.gate) c.args.gate = o.gate->data(), c.args.gate_type = o.gate->type();
    c.args.silu = n.silu;
    return c;
}

}  // namespace
}  // namespace around

Tensor l2norm(const Tensor& x, const LengthOptions& o) {
    causeway::around::check_rows(x.form(), o.eps);
    const Tensor y(x.dtype(), x.shape(), o.stream);
    around::norm(around::rows_of(x, o.eps, false), y.data(), o.stream);
    return y;
}

Tensor l2norm_grad(const Tensor& x, const Tensor& dy, const LengthOptions& o) {
    causeway::around::check_rows(x.form(), o.eps);
    causeway::around::check_arriving("dy", dy.form(), x.form());
    const around::NormArgs a = around::rows_of(x, o.eps, false);
    const Tensor dx(x.dtype(), x.shape(), o.stream), factor(DType::f32, {a.rows}, o.stream);
    around::norm_gradient(a, dy.data(), dx.data(), nullptr, factor.as<float>(), o.stream);
    return dx;
}

Tensor rms_norm(const Tensor& x, const NormOptions& o) {
    const around::Call c = around::check(x, o);
    const Tensor y(x.dtype(), x.shape(), o.stream);
    around::norm(c.args, y.data(), o.stream);
    return y;
}

NormGradient rms_norm_grad(const Tensor& x, const Tensor& dy, const NormOptions& o) {
    const around::Call c = around::check(x, o);
    causeway::around::check_arriving("dy", dy.form(), x.form());
    const around::NormArgs& a = c.args;
    NormGradient out{Tensor(x.dtype(), x.shape(), o.stream), {}, {}};
    if (o.gate) out.dgate = Tensor(o.gate->dtype(), x.shape(), o.stream);
    const Tensor factor(DType::f32, {a.rows}, o.stream);
    around::norm_gradient(a, dy.data(), out.dx.data(), o.gate ? out.dgate->data() : nullptr, factor.as<float>(),
                          o.stream);
    if (!o.weight) return out;
    const around::Parts parts(a.rows);
    const Buffer sums(static_cast<std::size_t>(parts.count * a.width) * sizeof(double), o.stream);
    around::norm_weights(a, dy.data(), factor.as<float>(), sums.as<double>(), o.stream);
    const Tensor dweight(DType::f32, o.weight->shape(), o.stream);
    around::add_parts(sums.as<double>(), parts.count, a.width, dweight.as<float>(), o.stream);
    out.dweight = dweight.to(o.weight->dtype(), o.stream);
    return out;
}

}  // namespace causeway::gpu
