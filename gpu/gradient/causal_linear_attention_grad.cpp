#include "gpu/gradient/causal_linear_attention_grad.hpp"

#include <cmath>

#include "core/gradient/check.hpp"
#include "core/kit/check.hpp"
#include "gpu/base/error.hpp"
#include "gpu/calls/packed.hpp"
#include "gpu/gated/portable.hpp"
#include "gpu/gradient/gated.hpp"
#include "gpu/gradient/lightning.hpp"
#include "gpu/gradient/quotient.hpp"
#include "gpu/tensor/elementwise.hpp"

namespace causeway::gpu {

namespace {

using causeway::exact::Dimensions;

void check(const Dimensions& n, const Tensor& V, const Tensor& dO, const CausalOptions& o) {
    if (dO.shape() != V.shape()) fail("dO: ", dO.shape().text(), ", expected ", V.shape().text(), " like V");
    if (dO.dtype() != V.dtype()) fail("dO: ", name(dO.dtype()), ", expected ", name(V.dtype()), " like V");
    refuse_packed(o.cu_seqlens, "this gradient on the GPU");
    refuse_pool(o.state_indices, "this gradient on the GPU");
    refuse_prefix(o.deterministic, "this gradient on the GPU");
    causeway::gradient::check_no_states(o);
    causeway::exact::check_decay(o.decay, n.heads);
    causeway::kit::check_scale(o.scale, n.dtype);
    if (o.method != "auto") causeway::exact::method(o.method);
    if (o.block) fail("block: given, but on the GPU ", calls::one_chunk_length);
    if (o.normalize && n.d >= 256)
        fail("V: width ", n.d, ", expected at most 255 in the gradient of normalised attention on the GPU");
    const Shape shape{n.batch, n.heads, n.r, n.d + (o.normalize ? 1 : 0)};
    if (o.state && o.state->dtype() != DType::f32) fail("state: ", name(o.state->dtype()), ", expected Float32");
    if (o.state && o.state->shape() != shape) fail("state: ", o.state->shape().text(), ", expected ", shape.text());
}

// Runs a kernel with the workspace that it asks for.
template <class Args, class Workspace, class Kernel>
void run(Args& a, Workspace& room_for, Kernel&& kernel, std::size_t bytes, cudaStream_t stream) {
    const Buffer workspace(bytes, stream);
    room_for = {workspace.data(), workspace.bytes()};
    kernel(a);
}

// A call: the tensors, and where their gradients go.
struct Problem {
    const Tensor &B, &C, &V, &dO;
    const CausalOptions& o;
    const Dimensions& n;
    CausalGradient& out;

    Index batch_heads() const { return n.batch * n.heads; }
};

// Without gates that vary, states and quotients: three calls of the fused kernel.
void by_lightning(const Problem& p) {
    const cudaStream_t stream = p.o.stream;
    const auto gamma = causeway::exact::check_decay(p.o.decay, p.n.heads);
    CausalArgs a = causal_args(p.B, p.C, p.V, p.n, gamma, p.o.precision);
    run(
        a, a.workspace,
        [&](const CausalArgs& x) {
            lightning_grad(x, p.dO.data(), p.out.dB.data(), p.out.dC.data(), p.out.dV.data(), stream);
        },
        lightning_grad_workspace(a), stream);
    if (p.o.scale == 1) return;
    for (const Tensor* x : {&p.out.dB, &p.out.dC, &p.out.dV})
        scale_by(x->data(), x->type(), x->size(), static_cast<float>(p.o.scale), stream);
}

// A constant decay is a gate with the same logarithm for every token: [batch-head, N].
Tensor constant_gates(const Problem& p) {
    const Tensor g(DType::f32, {p.batch_heads(), p.n.N}, p.o.stream);
    for (Index bh = 0; bh < p.batch_heads(); ++bh) {
        const double gamma = p.o.decay[p.o.decay.size() == 1 ? 0 : static_cast<std::size_t>(bh % p.n.heads)];
        fill(g.as<float>() + bh * p.n.N, p.n.N, static_cast<float>(std::log(gamma)), p.o.stream);
    }
    return g;
}

// What normalised attention divides: V with a column of ones, and the gradient with respect to O with that column, from
// the gradient of the quotient. `in` is the forward problem, all but v and o.
struct Quotient {
    Tensor v, dO;
};
Quotient quotient_of(const Problem& p, GatedArgs in) {
    const cudaStream_t stream = p.o.stream;
    const Index rows = p.batch_heads() * p.n.N;
    const Shape wide{p.n.batch, p.n.heads, p.n.N, p.n.d + 1};
    const Tensor values = p.V.to(DType::f32, stream), upstream = p.dO.to(DType::f32, stream);
    Quotient out{Tensor(DType::f32, wide, stream), Tensor(DType::f32, wide, stream)};
    append_ones(values.as<float>(), out.v.as<float>(), rows, p.n.d, stream);
    in.v = out.v.data(), in.o = out.dO.data();
    const Tensor state = p.o.state ? p.o.state->copy(stream) : Tensor();  // the forward pass advances it
    in.state = p.o.state ? state.as<float>() : nullptr;
    run(
        in, in.workspace, [&](const GatedArgs& x) { gated_portable(x, stream); }, gated_portable_workspace(in), stream);
    quotient_gradient(upstream.as<float>(), out.dO.as<float>(), rows, p.n.d, stream);
    return out;
}

// Everything else: gated attention with constant gates.
void by_gates(const Problem& p, bool decay_too) {
    const auto& [B, C, V, dO, o, n, out] = p;
    const cudaStream_t stream = o.stream;
    const bool gates = !o.decay.empty();
    const Tensor g = gates ? constant_gates(p) : Tensor();
    const Tensor dg = gates ? Tensor(DType::f32, g.shape(), stream) : Tensor();
    const Index wide = n.d + (o.normalize ? 1 : 0);
    const DType type = o.normalize ? DType::f32 : B.dtype();  // the quotient is differentiated in Float32
    const Tensor q = B.to(type, stream), k = C.to(type, stream);
    const Tensor dq = o.normalize ? Tensor(type, B.shape(), stream) : out.dB,
                 dk = o.normalize ? Tensor(type, C.shape(), stream) : out.dC;
    const Tensor dv = o.normalize ? Tensor(type, {n.batch, n.heads, n.N, wide}, stream) : out.dV;
    const Tensor dS = Tensor::zeros(DType::f32, {n.batch, n.heads, n.r, wide}, stream);

    GatedGradArgs a;
    GatedArgs& in = a.in;
    in.type = type_of(type);
    in.B = n.batch, in.H = n.heads, in.N = n.N, in.dk = static_cast<int>(n.r), in.dv = static_cast<int>(wide);
    in.q_stride = in.k_stride = contiguous(n.heads, n.N, in.dk),
    in.v_stride = in.o_stride = contiguous(n.heads, n.N, in.dv);
    in.q = q.data(), in.k = k.data();
    in.gates = gates ? 1 : 0;
    in.g = gates ? g.as<float>() : nullptr;
    in.scale = o.normalize ? 1.0f : static_cast<float>(o.scale);
    const Quotient quotient = o.normalize ? quotient_of(p, in) : Quotient{V, dO};
    in.v = quotient.v.data();
    in.state = o.state ? o.state->as<float>() : nullptr;
    a.dO = quotient.dO.data();
    a.dq = dq.data(), a.dk = dk.data(), a.dv = dv.data();
    a.dg = gates ? dg.as<float>() : nullptr;
    a.dstate = dS.as<float>();
    run(
        a, in.workspace, [&](const GatedGradArgs& x) { gated_gradient(x, stream); }, gated_gradient_workspace(a),
        stream);
    if (o.normalize) {
        convert(dq.data(), dq.type(), out.dB.data(), out.dB.type(), dq.size(), stream);
        convert(dk.data(), dk.type(), out.dC.data(), out.dC.type(), dk.size(), stream);
        const Tensor narrow(type, V.shape(), stream);
        drop_last(dv.as<float>(), narrow.as<float>(), p.batch_heads() * n.N, n.d, stream);
        convert(narrow.data(), narrow.type(), out.dV.data(), out.dV.type(), narrow.size(), stream);
    }
    if (gates && decay_too) {
        out.ddecay = Tensor(DType::f32, {static_cast<Index>(o.decay.size())}, stream);
        sum_gates(dg.as<float>(), g.as<float>(), out.ddecay->as<float>(), n.batch, n.heads, n.N, o.decay.size() == 1,
                  stream);
    }
    if (o.state) out.dstate = dS;
}

}  // namespace

CausalGradient causal_linear_attention_grad(const Tensor& B, const Tensor& C, const Tensor& V, const Tensor& dO,
                                            const CausalOptions& o, bool decay_too) {
    const Dimensions n = causeway::exact::check_inputs(B.form(), C.form(), V.form());
    check(n, V, dO, o);
    const cudaStream_t stream = o.stream;
    if (n.dtype == DType::f16 && o.scale != 1) {
        // Sums above 65504 would be Inf before they are scaled.
        const auto wide = [&](const Tensor& x) { return x.to(DType::f32, stream); };
        CausalGradient out = causal_linear_attention_grad(wide(B), wide(C), wide(V), wide(dO), o, decay_too);
        for (Tensor* x : {&out.dB, &out.dC, &out.dV}) *x = x->to(DType::f16, stream);
        return out;
    }
    CausalGradient out{Tensor(B.dtype(), B.shape(), stream),
                       Tensor(C.dtype(), C.shape(), stream),
                       Tensor(V.dtype(), V.shape(), stream),
                       {},
                       {}};
    const bool gates = !o.decay.empty();
    if (n.N == 0 || n.batch * n.heads == 0) {
        if (gates && decay_too) out.ddecay = Tensor::zeros(DType::f32, {static_cast<Index>(o.decay.size())}, stream);
        if (o.state) out.dstate = Tensor::zeros(DType::f32, o.state->shape(), stream);
        return out;
    }
    const Problem p{B, C, V, dO, o, n, out};
    if (o.normalize || o.state || (gates && decay_too)) by_gates(p, decay_too);
    else by_lightning(p);
    return out;
}

}  // namespace causeway::gpu
