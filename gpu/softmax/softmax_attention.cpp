#include "gpu/softmax/softmax_attention.hpp"

#include <cmath>

#include "gpu/base/error.hpp"
#include "gpu/softmax/decode.hpp"
#include "gpu/softmax/params.hpp"
#include "gpu/tensor/elementwise.hpp"
#include "gpu/tensor/places.hpp"

namespace causeway::gpu {
namespace softmax {

CheckedCall check(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxOptions& o) {
    causeway::SoftmaxOptions forms;
    forms.causal = o.causal, forms.method = o.method, forms.scale = o.scale, forms.cu_seqlens = o.cu_seqlens;
    CheckedCall c{causeway::attention::check(q.form(), k.form(), v.form(), forms), {}};
    const auto& n = c.sizes;
    if (o.method != "flash") fail("method: \"", o.method, "\" does not run on the GPU, expected \"flash\"");
    if (n.d > max_width || n.dv > max_width)
        fail("q: widths ", n.d, " and ", n.dv, " of k and v, expected at most ", max_width, " on the GPU");
    SoftmaxArgs& a = c.args;
    a.q = q.data(), a.k = k.data(), a.v = v.data();
    a.type = q.type();
    a.batch = n.batch, a.heads = n.heads, a.N = n.N, a.M = n.M;
    a.group = static_cast<int>(n.group), a.d = static_cast<int>(n.d), a.dv = static_cast<int>(n.dv);
    a.q_stride = contiguous(n.heads * n.group, n.N, a.d), a.k_stride = contiguous(n.heads, n.M, a.d);
    a.v_stride = contiguous(n.heads, n.M, a.dv), a.o_stride = contiguous(n.heads * n.group, n.N, a.dv);
    a.causal = n.causal;
    a.scale = static_cast<float>(n.scale);
    return c;
}

SoftmaxArgs args_of(const SoftmaxArgs& all, const Piece& piece) {
    SoftmaxArgs a = all;
    const auto from = [&](const void* x, Strides s) { return from_token(x, a.type, s, piece.first); };
    a.q = from(a.q, a.q_stride), a.k = from(a.k, a.k_stride), a.v = from(a.v, a.v_stride), a.o = from(a.o, a.o_stride);
    if (a.lse) a.lse += piece.first * a.batch * a.heads * a.group;
    a.N = piece.n;
    if (piece.n < all.N) a.M = piece.n;  // of packed sequences, as many keys as queries
    return a;
}

}  // namespace softmax

SoftmaxResult softmax_attention(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxOptions& o) {
    auto [sizes, a] = softmax::check(q, k, v, o);
    SoftmaxResult out{Tensor(q.dtype(), sizes.output, o.stream), Tensor(DType::f32, sizes.rows, o.stream)};
    a.o = out.O.data(), a.lse = out.lse.as<float>();
    if (out.lse.size() == 0) return out;
    if (a.d == 0 || a.M == 0) {  // no key: zeros; no width: every score is 0, left to the CPU's definition
        if (a.M > 0) fail("q: width 0, expected at least 1 on the GPU");
        fill(out.lse.as<float>(), out.lse.size(), -INFINITY, o.stream);
        if (out.O.bytes() > 0) check(cudaMemsetAsync(out.O.data(), 0, out.O.bytes(), o.stream), "clearing the output");
        return out;
    }
    const Pieces pieces = pieces_of(o.cu_seqlens, a.N, 0);
    for (const Piece& piece : pieces.list) {
        SoftmaxArgs one = softmax::args_of(a, piece);
        const Buffer workspace(flash_decoding_workspace(one), o.stream);  // many queries: that of flash_attention
        one.workspace = {workspace.data(), workspace.bytes()};
        flash_decoding(one, o.stream);
    }
    if (pieces.list.size() > 1) out.lse = by_heads(out.lse, pieces.cuts, a.batch * a.heads * a.group, 1, o.stream);
    return out;
}

}  // namespace causeway::gpu
