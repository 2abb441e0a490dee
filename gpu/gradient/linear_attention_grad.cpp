#include "gpu/gradient/linear_attention_grad.hpp"

#include "gpu/base/error.hpp"
#include "gpu/gated/registry.hpp"
#include "gpu/gradient/gated.hpp"
#include "gpu/gradient/quotient.hpp"

namespace causeway::gpu {

namespace gated {

Tensor as_given(const Tensor& grad, const Tensor& given, cudaStream_t stream) {
    if (grad.size() == given.size()) return grad.reshape(given.shape()).to(given.dtype(), stream);
    const Shape& s = grad.shape();
    const Tensor sum(DType::f32, given.shape(), stream);
    sum_heads(grad.as<float>(), sum.as<float>(), s[0], s[1], s[2] * s[3], stream);
    return sum.to(given.dtype(), stream);
}

void check_gradients(const causeway::gated::Sizes& n, const Tensor& v, const Tensor& dO,
                     const std::optional<Tensor>& dstate) {
    if (dO.shape() != n.output) fail("dO: ", dO.shape().text(), ", expected ", n.output.text(), " like the output");
    if (dO.dtype() != n.dtype) fail("dO: ", name(dO.dtype()), ", expected ", name(n.dtype), " like q");
    if (dstate && !causeway::gated::is_state_shape(dstate->shape(), v.form(), n)) {
        fail("dstate: ", dstate->shape().text(), ", expected ", n.state_shape.text(), " like the final state");
    }
}

}  // namespace gated

LinearGradient linear_attention_grad(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                     const LinearOptions& o, const std::optional<Tensor>& dstate) {
    check_gradient(o.mode);
    const gated::Call call = gated::check(q, k, v, o);
    const auto& n = call.sizes;
    gated::check_gradients(n, v, dO, dstate);
    LinearGradient out{Tensor(q.dtype(), q.shape(), o.stream),
                       Tensor(k.dtype(), k.shape(), o.stream),
                       Tensor(v.dtype(), v.shape(), o.stream),
                       {},
                       {},
                       {}};
    out.dstate = dstate ? dstate->own(DType::f32, o.stream).reshape(n.state_shape)
                        : Tensor::zeros(DType::f32, n.state_shape, o.stream);
    const Tensor state = o.state ? o.state->to(DType::f32, o.stream) : Tensor();
    GatedGradArgs a;
    a.in = call.args;
    a.in.state = o.state ? state.as<float>() : nullptr;
    a.dO = dO.data();
    a.dq = out.dq.data(), a.dk = out.dk.data(), a.dv = out.dv.data();
    a.dstate = out.dstate.as<float>();
    Tensor dg, dbeta;
    if (a.in.g) {
        dg = Tensor(DType::f32, {n.batch, n.heads, n.N, n.gates}, o.stream);
        a.dg = dg.as<float>();
    }
    if (a.in.beta) {
        dbeta = Tensor(DType::f32, {n.batch, n.heads, n.N, 1}, o.stream);
        a.dbeta = dbeta.as<float>();
    }
    const Buffer workspace(gated_gradient_workspace(a), o.stream);
    a.in.workspace = {workspace.data(), workspace.bytes()};
    gated_gradient(a, o.stream);
    if (a.in.g) out.dlog_decay = gated::as_given(dg, *o.log_decay, o.stream);
    if (a.in.beta) out.dbeta = gated::as_given(dbeta, *o.beta, o.stream);
    return out;
}

}  // namespace causeway::gpu
