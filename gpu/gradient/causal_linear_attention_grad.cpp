#include "gpu/gradient/causal_linear_attention_grad.hpp"

#include <cmath>

#include "core/kit/check.hpp"
#include "gpu/base/error.hpp"
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
    const Index heads = n.batch * n.heads;
    if (n.N == 0 || heads == 0) {
        if (!o.decay.empty() && decay_too)
            out.ddecay = Tensor::zeros(DType::f32, {static_cast<Index>(o.decay.size())}, stream);
        if (o.state) out.dstate = Tensor::zeros(DType::f32, o.state->shape(), stream);
        return out;
    }
    const bool gates = !o.decay.empty();
    if (!o.normalize && !o.state && !(gates && decay_too)) {
        const auto gamma = causeway::exact::check_decay(o.decay, n.heads);
        CausalArgs a = causal_args(B, C, V, n, gamma, o.precision);
        run(
            a, a.workspace,
            [&](const CausalArgs& x) {
                lightning_grad(x, dO.data(), out.dB.data(), out.dC.data(), out.dV.data(), stream);
            },
            lightning_grad_workspace(a), stream);
        if (o.scale != 1) {
            for (const Tensor* x : {&out.dB, &out.dC, &out.dV})
                scale_by(x->data(), x->type(), x->size(), static_cast<float>(o.scale), stream);
        }
        return out;
    }

    // A constant decay is a gate with the same logarithm for every token.
    Tensor g, dg;
    if (gates) {
        g = Tensor(DType::f32, {heads, n.N}, stream);
        dg = Tensor(DType::f32, {heads, n.N}, stream);
        for (Index h = 0; h < heads; ++h) {
            const double gamma = o.decay[o.decay.size() == 1 ? 0 : static_cast<std::size_t>(h % n.heads)];
            fill(g.as<float>() + h * n.N, n.N, static_cast<float>(std::log(gamma)), stream);
        }
    }
    const Index wide = n.d + (o.normalize ? 1 : 0);
    const DType type = o.normalize ? DType::f32 : B.dtype();  // the quotient is differentiated in Float32
    const Tensor q = B.to(type, stream), k = C.to(type, stream);
    Tensor v = V, output_gradient = dO;
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
    if (o.normalize) {
        const Index rows = heads * n.N;
        const Tensor values = V.to(type, stream), upstream = dO.to(type, stream);
        v = Tensor(type, dv.shape(), stream);
        append_ones(values.as<float>(), v.as<float>(), rows, n.d, stream);
        output_gradient = Tensor(type, dv.shape(), stream);
        in.v = v.data(), in.o = output_gradient.data();
        Tensor state = o.state ? o.state->copy(stream) : Tensor();  // the forward pass advances it
        in.state = o.state ? state.as<float>() : nullptr;
        run(
            in, in.workspace, [&](const GatedArgs& x) { gated_portable(x, stream); }, gated_portable_workspace(in),
            stream);
        quotient_gradient(upstream.as<float>(), output_gradient.as<float>(), rows, n.d, stream);
    }
    in.v = v.data(), in.o = nullptr;
    in.state = o.state ? o.state->as<float>() : nullptr;
    a.dO = output_gradient.data();
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
        drop_last(dv.as<float>(), narrow.as<float>(), heads * n.N, n.d, stream);
        convert(narrow.data(), narrow.type(), out.dV.data(), out.dV.type(), narrow.size(), stream);
    }
    if (gates && decay_too) {
        out.ddecay = Tensor(DType::f32, {static_cast<Index>(o.decay.size())}, stream);
        sum_gates(dg.as<float>(), g.as<float>(), out.ddecay->as<float>(), n.batch, n.heads, n.N, o.decay.size() == 1,
                  stream);
    }
    if (o.state) out.dstate = dS;
    return out;
}

}  // namespace causeway::gpu
