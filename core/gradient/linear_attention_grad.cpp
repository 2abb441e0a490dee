#include "core/gradient/linear_attention_grad.hpp"

#include "core/around/norms.hpp"
#include "core/gated/around.hpp"
#include "core/gradient/as_given.hpp"
#include "core/gradient/check.hpp"
#include "core/gradient/registry.hpp"
#include "core/kit/callers_order.hpp"
#include "core/kit/pool.hpp"

namespace causeway {
namespace {

using gated::Call;
using gradient::as_given;

void check_output_gradient(const Tensor& dO, const gated::Sizes& call) {
    if (dO.shape() != call.output)
        fail("dO: ", kit::callers_sizes(dO.shape()), ", expected ", kit::callers_sizes(call.output),
             " like the output");
    if (dO.dtype() != call.dtype) fail("dO: ", name(dO.dtype()), ", expected ", name(call.dtype), " like q");
}

// It may be written as v is: [b, h, d_k, d_v], [h, d_k, d_v] or [d_k, d_v].
void check_state_gradient(const Tensor& dstate, const Tensor& v, const gated::Sizes& call) {
    if (!gated::is_state_shape(dstate.shape(), v, call))
        fail("dstate: ", dstate.shape().text(), ", expected ", call.state_shape.text(), " like the final state");
    if ((dstate.dtype() == DType::f64) != (call.compute == DType::f64))
        fail("dstate: ", name(dstate.dtype()), ", expected ", name(call.compute), " like the final state");
}

// A copy of the gradient that arrives at the final state, or zeros.
Tensor state_gradient(const std::optional<Tensor>& dstate, const Call& call) {
    if (!dstate) return Tensor::zeros(call.compute, call.state_shape);
    const Tensor converted = dstate->to(call.compute).reshape(call.state_shape);
    return dstate->dtype() == call.compute ? converted.copy() : converted;
}

template <class T>
LinearGradient compute(const gradient::Runner& runner, const Call& call, const Tensor& q, const Tensor& k,
                       const Tensor& v, const Tensor& dO, const LinearOptions& o, Tensor dstate) {
    constexpr DType type = dtype_of<T>;
    Tensor dq(type, {call.batch, call.heads * call.group, call.N, call.dk}),
        dk(type, {call.batch, call.heads, call.N, call.dk}), dv(type, v.shape()), dg, dbeta;
    Tensor state = call.state;
    const Tensor output_gradient = dO.to(type);
    gradient::GradProblem<T> p;
    p.in = gated::problem_of<T>(call);
    p.in.S = state.data<T>();
    p.dO = output_gradient.data<T>();
    p.dq = dq.data<T>(), p.dk = dk.data<T>(), p.dv = dv.data<T>();
    p.dS = dstate.data<T>();
    if (p.in.g) {
        dg = Tensor(type, {call.batch, call.heads, call.N, call.gates});
        p.dg = dg.data<T>();
    }
    if (p.in.beta) {
        dbeta = Tensor(type, {call.batch, call.heads, call.N, 1});
        p.dbeta = dbeta.data<T>();
    }
    kit::computing_in<T>(runner)(p);
    LinearGradient out{as_given<T>(dq, q), as_given<T>(dk, k), dv.to(call.dtype), {}, {}, dstate};
    if (p.in.g) out.dlog_decay = as_given<T>(dg, *o.log_decay);
    if (p.in.beta) out.dbeta = as_given<T>(dbeta, *o.beta);
    if (!call.slots.empty()) out.dstate = kit::gradient_of_slots(dstate, call.slots, o.state->shape()[0]);
    return out;
}

// The gradient of a call that makes its gates or norms its outputs; rule(options, dO) is that of the rule alone.
template <class Rule>
LinearGradient gradient_around(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                               const LinearOptions& o, Rule&& rule) {
    const LinearOptions within = gated::within(q, k, v, o);
    NormGradient norm{dO, {}, {}};
    if (calls::has_norm(o)) {
        gradient::check_no_states(o);
        norm = rms_norm_grad(linear_attention(q, k, v, within).O, dO, calls::norm_of<NormOptions>(o));
    }
    LinearGradient out = rule(within, norm.dx);
    out.dnorm_weight = norm.dweight, out.dnorm_gate = norm.dgate;
    if (!o.A_log) return out;
    const gated::Sizes n = gated::check_sizes(q, k, v, o);
    const Shape full = gated::projection_shape(o.log_decay->shape(), v.shape(), n);
    const DecayGateGradient gates =
        decay_gate_grad(o.log_decay->to(n.compute).reshape(full), *o.A_log, out.dlog_decay->reshape(full),
                        calls::gates_of<DecayGateOptions>(o));
    out.dlog_decay = gates.da.reshape(o.log_decay->shape()).to(o.log_decay->dtype());
    out.dA_log = gates.dA_log, out.ddt_bias = gates.ddt_bias;
    return out;
}

}  // namespace

void gradient::check_linear_grad(const gated::Sizes& n, const Tensor& v, const Tensor& dO, const LinearOptions& o,
                                 const std::optional<Tensor>& dstate) {
    check_output_gradient(dO, n);
    gradient::check_no_states(o);
    if (dstate) check_state_gradient(*dstate, v, n);
}

LinearGradient gradient::linear_attention_grad_by(const Runner& runner, const Tensor& q, const Tensor& k,
                                                  const Tensor& v, const Tensor& dO, const LinearOptions& o,
                                                  const std::optional<Tensor>& dstate) {
    calls::check_around(o);
    if (o.A_log || calls::has_norm(o)) {
        return gradient_around(q, k, v, dO, o, [&](const LinearOptions& within, const Tensor& arrives) {
            return linear_attention_grad_by(runner, q, k, v, arrives, within, dstate);
        });
    }
    const Call call = gated::check(q, k, v, o);
    check_linear_grad(call, v, dO, o, dstate);
    Tensor dS = state_gradient(dstate, call);
    LinearGradient out = call.compute == DType::f64 ? compute<double>(runner, call, q, k, v, dO, o, dS)
                                                    : compute<float>(runner, call, q, k, v, dO, o, dS);
    if (o.qk_l2norm) out.dq = l2norm_grad(q, out.dq), out.dk = l2norm_grad(k, out.dk);
    return out;
}

LinearGradient linear_attention_grad(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                     const LinearOptions& o, const std::optional<Tensor>& dstate) {
    gated::modes()[o.mode];  // names the modes of the call in its message
    const gradient::LinearForm& form = gradient::linear_forms()[o.mode];
    return gradient::linear_attention_grad_by({form.f32, form.f64}, q, k, v, dO, o, dstate);
}

}  // namespace causeway
