#include "gpu/gradient/softmax_attention_grad.hpp"

#include "gpu/base/error.hpp"
#include "gpu/gradient/softmax.hpp"
#include "gpu/tensor/places.hpp"

namespace causeway::gpu {

namespace {

// Queues one of the packed sequences, or all that there is.
void run(const SoftmaxGradArgs& all, const Piece& piece, cudaStream_t stream) {
    SoftmaxGradArgs a = all;
    a.in = softmax::args_of(all.in, piece);
    const auto from = [&](const void* x, Strides s) { return from_token(x, a.in.type, s, piece.first); };
    a.dO = from(a.dO, a.in.o_stride);
    a.dq = from(a.dq, a.in.q_stride), a.dk = from(a.dk, a.in.k_stride), a.dv = from(a.dv, a.in.v_stride);
    const Buffer workspace(flash_attention_grad_workspace(a), stream);
    a.in.workspace = {workspace.data(), workspace.bytes()};
    flash_attention_grad(a, stream);
}

}  // namespace

void softmax::check_gradients(const causeway::attention::Sizes& n, const Tensor& dO,
                              const std::optional<SoftmaxResult>& forward) {
    if (dO.shape() != n.output) fail("dO: ", dO.shape().text(), ", expected ", n.output.text(), " like the output");
    if (dO.dtype() != n.dtype) fail("dO: ", name(dO.dtype()), ", expected ", name(n.dtype), " like q");
    if (forward && (forward->O.shape() != n.output || forward->O.dtype() != n.dtype))
        fail("O: a ", forward->O.summary(), ", expected ", n.output.text(), " ", name(n.dtype));
    if (forward && (forward->lse.shape() != n.rows || forward->lse.dtype() != DType::f32))
        fail("lse: a ", forward->lse.summary(), ", expected ", n.rows.text(), " Float32");
}

SoftmaxGradient softmax_attention_grad(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                       const SoftmaxOptions& o, const std::optional<SoftmaxResult>& forward) {
    const softmax::CheckedCall call = softmax::check(q, k, v, o);
    const auto& n = call.sizes;
    softmax::check_gradients(n, dO, forward);
    const SoftmaxResult there = forward ? *forward : softmax_attention(q, k, v, o);
    SoftmaxGradient out{Tensor::zeros(q.dtype(), q.shape(), o.stream), Tensor::zeros(k.dtype(), k.shape(), o.stream),
                        Tensor::zeros(v.dtype(), v.shape(), o.stream)};
    if (there.O.size() == 0 || n.M == 0 || n.d == 0) return out;
    SoftmaxGradArgs a;
    a.in = call.args;
    const Pieces pieces = pieces_of(o.cu_seqlens, n.N, 0);
    const Index heads = n.batch * n.heads * n.group;
    const Tensor lse = pieces.list.size() > 1 ? by_pieces(there.lse, pieces.cuts, heads, 1, o.stream) : there.lse;
    a.in.o = there.O.data(), a.in.lse = lse.as<float>();
    a.dO = dO.data();
    a.dq = out.dq.data(), a.dk = out.dk.data(), a.dv = out.dv.data();
    for (const Piece& piece : pieces.list) run(a, piece, o.stream);
    return out;
}

}  // namespace causeway::gpu
