#include "gpu/around/decay_gate.hpp"

#include "core/around/decay_gate.hpp"
#include "core/around/parameters.hpp"
#include "gpu/around/sums.hpp"

namespace causeway::gpu {
namespace around {
namespace {

// A checked call; the tensors keep what `args` points to.
struct Call {
    Tensor A_log, bias;
    GateArgs args;
};

Call check(const Tensor& a, const Tensor& A_log, const DecayGateOptions& o) {
    causeway::DecayGateOptions forms;
    forms.dt_bias = form_of(o.dt_bias), forms.lower_bound = o.lower_bound;
    const auto n = causeway::around::check_gate(a.form(), A_log.form(), forms);
    Call c{A_log.to(DType::f32, o.stream), {}, {}};
    if (o.dt_bias) c.bias = o.dt_bias->to(DType::f32, o.stream);
    c.args = {a.data(), a.type(), c.A_log.as<float>(), o.dt_bias ? c.bias.as<float>() : nullptr,     n.batch,
              n.heads,  n.N,      n.channels,          static_cast<float>(o.lower_bound.value_or(0))};
    return c;
}

}  // namespace
}  // namespace around

Tensor decay_gate(const Tensor& a, const Tensor& A_log, const DecayGateOptions& o) {
    const around::Call c = around::check(a, A_log, o);
    const Tensor g(a.dtype(), a.shape(), o.stream);
    around::gates(c.args, g.data(), o.stream);
    return g;
}

Tensor decay_gate_in_float(const Tensor& a, const Tensor& A_log, const DecayGateOptions& o) {
    const around::Call c = around::check(a, A_log, o);
    const Tensor g(DType::f32, a.shape(), o.stream);
    around::gates_in_float(c.args, g.as<float>(), o.stream);
    return g;
}

DecayGateGradient decay_gate_grad(const Tensor& a, const Tensor& A_log, const Tensor& dg, const DecayGateOptions& o) {
    const around::Call c = around::check(a, A_log, o);
    const around::GateArgs& n = c.args;
    causeway::around::check_arriving("dg", dg.form(), a.form());
    DecayGateGradient out{Tensor(a.dtype(), a.shape(), o.stream), {}, {}};
    around::gate_inputs(n, dg.data(), out.da.data(), o.stream);
    const Index columns = n.heads * n.channels, parts = around::Parts(n.N).count * n.batch;
    const auto bytes = static_cast<std::size_t>(parts * columns) * sizeof(double);
    const Buffer by_rate(bytes, o.stream), by_bias(o.dt_bias ? bytes : 0, o.stream);
    around::gate_parameters(n, dg.data(), by_rate.as<double>(), by_bias.as<double>(), o.stream);
    const Tensor rates(DType::f32, {n.heads, n.channels}, o.stream), dA_log(DType::f32, {n.heads}, o.stream);
    around::add_parts(by_rate.as<double>(), parts, columns, rates.as<float>(), o.stream);
    around::add_channels(rates.as<float>(), n.heads, n.channels, dA_log.as<float>(), o.stream);
    out.dA_log = dA_log.to(A_log.dtype(), o.stream);
    if (!o.dt_bias) return out;
    const Tensor dbias(DType::f32, o.dt_bias->shape(), o.stream);
    around::add_parts(by_bias.as<double>(), parts, columns, dbias.as<float>(), o.stream);
    out.ddt_bias = dbias.to(o.dt_bias->dtype(), o.stream);
    return out;
}

}  // namespace causeway::gpu
