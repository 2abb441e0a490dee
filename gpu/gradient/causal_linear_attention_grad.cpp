#include "gpu/gradient/causal_linear_attention_grad.hpp"

#include <cmath>
#include <utility>

#include "core/gradient/check.hpp"
#include "core/kit/check.hpp"
#include "gpu/base/copy.hpp"
#include "gpu/base/error.hpp"
#include "gpu/calls/packed.hpp"
#include "gpu/calls/pieces.hpp"
#include "gpu/exact/grouped.hpp"
#include "gpu/gated/portable.hpp"
#include "gpu/gradient/gated.hpp"
#include "gpu/gradient/lightning.hpp"
#include "gpu/gradient/quotient.hpp"
#include "gpu/tensor/elementwise.hpp"
#include "gpu/tensor/places.hpp"

namespace causeway::gpu {

using causeway::exact::Dimensions;

void check_causal_gradient(const Dimensions& n, const Tensor& V, const Tensor& dO, const CausalOptions& o) {
    if (const Shape output = causeway::exact::output_shape(V.form(), n); dO.shape() != output)
        fail("dO: ", dO.shape().text(), ", expected ", output.text(),
             output == V.shape() ? " like V" : " like the output");
    if (dO.dtype() != V.dtype()) fail("dO: ", name(dO.dtype()), ", expected ", name(V.dtype()), " like V");
    check_states(n, o);
    causeway::gradient::check_no_states(o);
    refuse_prefix(o.deterministic, "this gradient on the GPU");
    causeway::exact::check_decay(o.decay, n.state_heads());
    causeway::kit::check_scale(o.scale, n.dtype);
    if (o.method != "auto") causeway::exact::method(o.method);
    if (o.block) fail("block: given, but on the GPU ", calls::one_chunk_length);
    if (o.normalize && n.d >= 256)
        fail("V: width ", n.d, ", expected at most 255 in the gradient of normalised attention on the GPU");
}

Tensor constant_gates(const std::vector<double>& decay, Index batch, Index heads, Index N, cudaStream_t stream) {
    const Tensor g(DType::f32, {batch, heads, N}, stream);
    for (Index bh = 0; bh < batch * heads; ++bh) {
        const double gamma = decay[decay.size() == 1 ? 0 : static_cast<std::size_t>(bh % heads)];
        fill(g.as<float>() + bh * N, N, static_cast<float>(std::log(gamma)), stream);
    }
    return g;
}

Tensor gradient_of_decays(const Tensor& dg, const Tensor& gates, std::size_t decays, cudaStream_t stream) {
    if (gates.size() == 0) return Tensor::zeros(DType::f32, {static_cast<Index>(decays)}, stream);
    const Tensor out(DType::f32, {static_cast<Index>(decays)}, stream);
    const Shape& s = gates.shape();
    sum_gates(dg.as<float>(), gates.as<float>(), out.as<float>(), s[0], s[1], s[2], decays == 1, stream);
    return out;
}

namespace {

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
    const Tensor g = gates ? constant_gates(o.decay, n.batch, n.heads, n.N, stream) : Tensor();
    const Tensor dg = gates ? Tensor(DType::f32, g.shape(), stream) : Tensor();
    const Index wide = n.d + (o.normalize ? 1 : 0);
    const DType type = o.normalize ? DType::f32 : B.dtype();  // the quotient is differentiated in Float32
    const Tensor q = B.to(type, stream), k = C.to(type, stream);
    const Tensor dq = o.normalize ? Tensor(type, B.shape(), stream) : out.dB,
                 dk = o.normalize ? Tensor(type, C.shape(), stream) : out.dC;
    const Tensor dv = o.normalize ? Tensor(type, {n.batch, n.heads, n.N, wide}, stream) : out.dV;
    const Tensor dS(DType::f32, {n.batch, n.heads, n.r, wide}, stream);

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
    if (gates && decay_too) out.ddecay = gradient_of_decays(dg, g, o.decay.size(), stream);
    if (o.state) out.dstate = dS;
}

// Copies between tokens first ... of every head of x [1, h, N, w] and `part`, which has them alone.
void copy_tokens(const Tensor& part, const Tensor& x, Index first, bool to_part, cudaStream_t stream) {
    if (part.size() == 0) return;
    const Shape &s = x.shape(), &p = part.shape();
    const int tokens = s.ndim() - 2;
    const std::size_t row = static_cast<std::size_t>(s[tokens + 1]) * size_of(x.dtype()),
                      few = static_cast<std::size_t>(p[tokens]) * row, all = static_cast<std::size_t>(s[tokens]) * row;
    char* const from = x.as<char>() + static_cast<std::size_t>(first) * row;
    RowCopy copy{part.data(), few, from, all, few, part.bytes() / few};
    if (!to_part) std::swap(copy.to_pitch, copy.from_pitch), copy.to = from, copy.from = part.data();
    copy_rows(copy, stream, "copying a packed sequence");
}

// Each packed sequence by a call of its own, whose bits it has.
CausalGradient each_packed(const Dimensions& n, const Tensor& B, const Tensor& C, const Tensor& V, const Tensor& dO,
                           const CausalOptions& o, bool decay_too) {
    const cudaStream_t stream = o.stream;
    CausalGradient out{Tensor(B.dtype(), B.shape(), stream),
                       Tensor(C.dtype(), C.shape(), stream),
                       Tensor(V.dtype(), V.shape(), stream),
                       {},
                       {}};
    const Index decays = decay_too ? static_cast<Index>(o.decay.size()) : 0,
                count = static_cast<Index>(o.cu_seqlens.size()) - 1;
    const Tensor each_ddecay = Tensor::zeros(DType::f32, {count, decays}, stream);
    if (o.state) out.dstate = Tensor::zeros(DType::f32, o.state->shape(), stream);
    const std::size_t state_bytes = o.state ? o.state->bytes() / static_cast<std::size_t>(count) : 0;
    CausalOptions alone = o;  // without the offsets, which a copy for each sequence would have all of
    alone.cu_seqlens.clear();
    for (const Piece& piece : pieces_of(o.cu_seqlens, n.N, 0).list) {
        const auto part_of = [&](const Tensor& x) {
            Shape shape = x.shape();
            shape[shape.ndim() - 2] = piece.n;
            Tensor part(x.dtype(), shape, stream);
            copy_tokens(part, x, piece.first, true, stream);
            return part;
        };
        // The i-th of `bytes` each.
        const auto place = [&](const Tensor& x, std::size_t bytes) {
            return x.as<char>() + static_cast<std::size_t>(piece.sequence) * bytes;
        };
        CausalOptions one = alone;
        if (o.state) {
            Shape shape = o.state->shape();
            shape[0] = 1;
            one.state = Tensor::view(DType::f32, shape, place(*o.state, state_bytes));
        }
        const CausalGradient g =
            causal_linear_attention_grad(part_of(B), part_of(C), part_of(V), part_of(dO), one, decay_too);
        copy_tokens(g.dB, out.dB, piece.first, false, stream);
        copy_tokens(g.dC, out.dC, piece.first, false, stream);
        copy_tokens(g.dV, out.dV, piece.first, false, stream);
        const auto keep = [&](const std::optional<Tensor>& from, const Tensor& to) {
            if (from && from->bytes() > 0)
                copy_rows({place(to, from->bytes()), from->bytes(), from->data(), from->bytes(), from->bytes(), 1},
                          stream, "keeping the gradient of a packed sequence");
        };
        if (out.dstate) keep(g.dstate, *out.dstate);
        keep(g.ddecay, each_ddecay);
    }
    if (decays > 0) {
        out.ddecay = Tensor::zeros(DType::f32, {decays}, stream);
        sum_heads(each_ddecay.data(), out.ddecay->data(), Type::Float32, 1, count, decays, stream);
    }
    return out;
}

// Heads that are shared: part by part. What heads of the output share gets a gradient from each, and they are added up.
CausalGradient by_parts(const Dimensions& n, const Tensor& B, const Tensor& C, const Tensor& V, const Tensor& dO,
                        const CausalOptions& o, bool decay_too) {
    const cudaStream_t stream = o.stream;
    const GroupedHeads heads(n);
    const auto each_head = [&](DType type, Index width) {
        return Tensor(type, {n.batch, n.heads, n.N, width}, stream);
    };
    const Tensor dB = each_head(B.dtype(), n.r), dC = each_head(C.dtype(), n.r), dV = each_head(V.dtype(), n.d);
    const bool decays = decay_too && !o.decay.empty(), one_decay = o.decay.size() == 1;
    const Index of_part = one_decay ? 1 : n.heads / heads.parts();
    const Tensor ddecay(DType::f32, {decays ? heads.parts() : 0, of_part}, stream);
    Shape shape = o.state ? o.state->shape() : Shape{0, 0, 0, 0};
    shape[1] = o.state ? n.heads : 0;
    const Tensor dstate(DType::f32, shape, stream);
    for (Index j = 0; j < heads.parts(); ++j) {
        CausalOptions one = o;
        one.decay = heads.decay_of(o.decay, j);
        if (o.state) one.state = from_heads(*o.state, heads.of(n.shared_V, j), stream);
        const CausalGradient g = causal_linear_attention_grad(
            heads.part_of(B, n.shared_B, j, stream), heads.part_of(C, n.shared_C, j, stream),
            heads.part_of(V, n.shared_V, j, stream), heads.part_of(dO, 1, j, stream), one, decay_too);
        const SomeHeads outputs = heads.of(1, j);
        to_heads(g.dB, outputs, dB, stream), to_heads(g.dC, outputs, dC, stream), to_heads(g.dV, outputs, dV, stream);
        if (o.state) to_heads(*g.dstate, outputs, dstate, stream);
        if (!decays) continue;
        // Head j + m · parts is the m-th of part j.
        const std::size_t number = sizeof(float), column = static_cast<std::size_t>(one_decay ? 1 : heads.parts());
        copy_rows({ddecay.as<float>() + j, column * number, g.ddecay->data(), number, number,
                   static_cast<std::size_t>(of_part)},
                  stream, "collecting gradients of decays");
    }
    CausalGradient out{Tensor(B.dtype(), B.shape(), stream),
                       Tensor(C.dtype(), C.shape(), stream),
                       Tensor(V.dtype(), V.shape(), stream),
                       {},
                       {}};
    // Of `rows` groups of `shared` heads of `row` numbers.
    const auto add = [&](const Tensor& each, const Tensor& sum, Index rows, Index shared, Index row) {
        if (sum.size() > 0) sum_heads(each.data(), sum.data(), each.type(), rows, shared, row, stream);
    };
    const auto add_tokens = [&](const Tensor& each, const Tensor& sum, Index shared, Index width) {
        add(each, sum, n.batch * n.heads / shared, shared, n.N * width);
    };
    add_tokens(dB, out.dB, n.shared_B, n.r), add_tokens(dC, out.dC, n.shared_C, n.r);
    add_tokens(dV, out.dV, n.shared_V, n.d);
    if (decays) {
        out.ddecay = Tensor(DType::f32, {static_cast<Index>(o.decay.size())}, stream);
        if (one_decay) add(ddecay, *out.ddecay, 1, heads.parts(), 1);
        else add(ddecay, *out.ddecay, n.state_heads(), n.shared_V, 1);
    }
    if (o.state) {
        out.dstate = Tensor(DType::f32, o.state->shape(), stream);
        add(dstate, *out.dstate, shape[0] * n.state_heads(), n.shared_V, shape[2] * shape[3]);
    }
    return out;
}

}  // namespace

CausalGradient causal_linear_attention_grad(const Tensor& B, const Tensor& C, const Tensor& V, const Tensor& dO,
                                            const CausalOptions& o, bool decay_too) {
    const Dimensions n = causeway::exact::check_grouped_inputs(B.form(), C.form(), V.form());
    check_causal_gradient(n, V, dO, o);
    const cudaStream_t stream = o.stream;
    if (o.state && (!o.state_indices.empty() || o.state->dtype() != DType::f32)) {
        CausalOptions own = o;
        own.state_indices.clear();
        own.state = o.state_indices.empty() ? *o.state : from_slots(*o.state, o.state_indices, stream);
        own.state = own.state->to(DType::f32, stream);
        CausalGradient out = causal_linear_attention_grad(B, C, V, dO, own, decay_too);
        if (!o.state_indices.empty())
            out.dstate = gradient_of_slots(*out.dstate, o.state_indices, o.state->shape()[0], stream);
        return out;
    }
    if (GroupedHeads(n).any()) return by_parts(n, B, C, V, dO, o, decay_too);
    if (!o.cu_seqlens.empty()) return each_packed(n, B, C, V, dO, o, decay_too);
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
