#include "gpu/gradient/general_linear_attention_grad.hpp"

#include "core/gradient/check.hpp"
#include "gpu/base/error.hpp"
#include "gpu/calls/packed.hpp"
#include "gpu/gradient/general_recurrent.hpp"
#include "gpu/gradient/linear_attention_grad.hpp"
#include "gpu/gradient/quotient.hpp"

namespace causeway::gpu {

namespace {

// The gradient of an input, of every state (and query) its own: as it was given, summed where some share one.
Tensor shared_as_given(const Tensor& grad, const Tensor& given, Index shared, cudaStream_t stream) {
    if (shared == 1 || grad.size() == 0) return grad.reshape(given.shape()).to(given.dtype(), stream);
    const Shape& s = grad.shape();
    const Tensor sum(DType::f32, given.shape(), stream);
    sum_heads(grad.data(), sum.data(), Type::Float32, s[0] * s[1] / shared, shared, s[2] * s[3], stream);
    return sum.to(given.dtype(), stream);
}

// The same call on the tokens of a piece.
GeneralGradArgs args_of(const GeneralGradArgs& all, const Piece& piece) {
    GeneralGradArgs a = all;
    a.in = gated::args_of(all.in, piece);
    a.dO.data = from_token(a.dO.data, a.dO.type, a.dO.stride, piece.first);
    const auto from = [&](float*& x, Index width) {
        if (x) x += piece.first * width;
    };
    from(a.dq, a.in.dk), from(a.dk, a.in.dk), from(a.dv, a.in.dv), from(a.du, a.in.dk), from(a.dw, a.in.dk);
    from(a.da, a.in.gates);
    a.dstate += piece.sequence * a.in.B * a.in.H * a.in.dk * a.in.dv;
    return a;
}

}  // namespace

GeneralGradient general_linear_attention_grad(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                              const GeneralOptions& o, const std::optional<Tensor>& dstate) {
    const gated::GeneralCall call = gated::check_general(q, k, v, o);
    const auto& n = call.sizes;
    gated::check_gradients(n, v, dO, dstate);
    causeway::gradient::check_no_states(o);
    const auto made = [&](Index heads, Index width) {
        return Tensor(DType::f32, {n.batch, heads, n.N, width}, o.stream);
    };
    const Tensor dq = made(n.heads * n.group, n.dk), dk = made(n.heads, n.dk), dv = made(n.heads, n.dv),
                 da = made(n.gates > 0 ? n.heads : 0, n.gates), du = made(n.erases ? n.heads : 0, n.dk),
                 dw = made(n.erases ? n.heads : 0, n.dk);
    const std::optional<Tensor> given = gated::states_before(n, o.state, o.stream);
    const Tensor state = given ? *given : Tensor::zeros(DType::f32, n.state_shape, o.stream);
    GeneralGradient out;
    out.dstate = gated::last_gradient(n, dstate, o.stream);
    GeneralGradArgs a;
    a.in = call.args;
    a.in.state = state.as<float>();
    a.dO = {dO.data(), dO.type(), call.args.o_stride, 1};
    a.rows = n.N;
    a.dq = dq.as<float>(), a.dk = dk.as<float>(), a.dv = dv.as<float>(), a.dstate = out.dstate.as<float>();
    if (n.erases) a.du = du.as<float>(), a.dw = dw.as<float>();
    if (n.gates > 0) a.da = da.as<float>();
    for (const Piece& piece : pieces_of(o.cu_seqlens, n.N, 0).list) {
        GeneralGradArgs one = args_of(a, piece);
        const Buffer workspace(general_recurrent_gradient_workspace(one), o.stream);
        one.in.workspace = {workspace.data(), workspace.bytes()};
        general_recurrent_gradient(one, o.stream);
    }
    out.dq = shared_as_given(dq, q, n.shared_queries, o.stream);
    out.dk = shared_as_given(dk, k, n.shared_keys, o.stream);
    out.dv = shared_as_given(dv, v, 1, o.stream);
    if (n.gates > 0) out.da = shared_as_given(da, *o.a, n.a_shared, o.stream);
    if (n.erases) {
        out.du = shared_as_given(du, *o.u, n.u_shared, o.stream);
        out.dw = shared_as_given(dw, *o.w, n.w_shared, o.stream);
    }
    if (!n.slots.empty()) out.dstate = gradient_of_slots(out.dstate, n.slots, o.state->shape()[0], o.stream);
    return out;
}

}  // namespace causeway::gpu
