#include "gpu/exact/causal_linear_attention.hpp"

#include "core/kit/check.hpp"
#include "gpu/base/error.hpp"
#include "gpu/calls/packed.hpp"
#include "gpu/exact/normalize.hpp"
#include "gpu/exact/registry.hpp"
#include "gpu/tensor/elementwise.hpp"

namespace causeway::gpu {

namespace {

using causeway::exact::Dimensions;

constexpr const char *fastest = "lightning-attention-2", *of_any_block = "block-based";

// `width` columns of every row of the two, rows of `to` and `from` being `to_row` and `from_row` columns apart.
void copy_columns(float* to, Index to_row, const float* from, Index from_row, Index width, Index rows,
                  cudaStream_t stream) {
    if (width == 0 || rows == 0) return;
    const auto bytes = [](Index n) { return static_cast<std::size_t>(n) * sizeof(float); };
    check(cudaMemcpy2DAsync(to, bytes(to_row), from, bytes(from_row), bytes(width), static_cast<std::size_t>(rows),
                            cudaMemcpyDeviceToDevice, stream),
          "copying a state");
}

}  // namespace

const CausalMethod& method_for(const std::string& name, std::optional<Index> block) {
    if (block && *block < 1) fail("block: ", *block, ", expected 1 or more");
    if (name == "auto") return causal_method(!block || *block == causal_method(fastest).block ? fastest : of_any_block);
    const CausalMethod& m = causal_method(causeway::exact::method(name).name);
    if (block && m.block == 0) fail("block: the method \"", m.name, "\" has none");
    if (block && !m.any_block && *block != m.block) {
        fail("block: ", *block, ", expected ", m.block, ", the block that ", m.name, " is built for on the GPU");
    }
    return m;
}

CausalArgs causal_args(const Tensor& B, const Tensor& C, const Tensor& V, const Dimensions& n,
                       const std::vector<double>& gamma, Precision precision) {
    CausalArgs a;
    a.q = B.data(), a.k = C.data(), a.v = V.data();
    a.type = B.type();
    a.B = n.batch, a.H = n.heads, a.N = n.N, a.r = static_cast<int>(n.r), a.d = static_cast<int>(n.d);
    a.q_stride = a.k_stride = contiguous(n.heads, n.N, a.r), a.v_stride = a.o_stride = contiguous(n.heads, n.N, a.d);
    a.gamma = gamma.empty() ? nullptr : gamma.data();
    a.precision = precision;
    return a;
}

CausalResult causal_linear_attention(const Tensor& B, const Tensor& C, const Tensor& V, const CausalOptions& o) {
    refuse_packed(o.cu_seqlens, o.state_indices);
    refuse_in_place(o.inplace);
    const Dimensions n = causeway::exact::check_inputs(B.form(), C.form(), V.form());
    const auto gamma = causeway::exact::check_decay(o.decay, n.heads);
    causeway::kit::check_scale(o.scale, n.dtype);
    if (n.dtype == DType::f16 && (o.normalize || o.scale != 1)) {
        // Sums above 65504 would be Inf in the output before it is divided or scaled.
        CausalResult wide = causal_linear_attention(B.to(DType::f32, o.stream), C.to(DType::f32, o.stream),
                                                    V.to(DType::f32, o.stream), o);
        wide.O = wide.O.to(DType::f16, o.stream);
        return wide;
    }
    const CausalMethod& method = method_for(o.method, o.block);
    const bool state = o.state || o.return_state;
    if (state && !method.state) fail("state: the method \"", method.name, "\" carries no state");
    const Index wide = n.d + (o.normalize ? 1 : 0), rows = n.batch * n.heads * n.r;
    const Shape state_shape{n.batch, n.heads, n.r, wide};
    if (o.state && o.state->dtype() != DType::f32) fail("state: ", name(o.state->dtype()), ", expected Float32");
    if (o.state && o.state->shape() != state_shape)
        fail("state: ", o.state->shape().text(), ", expected ", state_shape.text());

    CausalResult out{Tensor(V.dtype(), V.shape(), o.stream), {}};
    CausalArgs a = causal_args(B, C, V, n, gamma, o.precision);
    a.block = o.block.value_or(0);
    a.o = out.O.data();

    Tensor sums, keys;  // the state without and of its last column
    if (state) {
        sums = Tensor::zeros(DType::f32, {n.batch, n.heads, n.r, n.d}, o.stream);
        if (o.state) copy_columns(sums.as<float>(), n.d, o.state->as<float>(), wide, n.d, rows, o.stream);
        a.state = sums.as<float>();
        if (o.normalize) {
            keys = Tensor::zeros(DType::f32, {n.batch, n.heads, n.r}, o.stream);
            if (o.state) copy_columns(keys.as<float>(), 1, o.state->as<float>() + n.d, wide, 1, rows, o.stream);
        }
    }
    if (n.batch > 0 && n.heads > 0 && n.N > 0 && n.r > 0 && n.d > 0) {
        const Buffer workspace(method.workspace(a), o.stream);
        a.workspace = {workspace.data(), workspace.bytes()};
        method.run(a, o.stream);
        if (o.normalize) {
            const Buffer room(normalize_workspace(a), o.stream);
            a.workspace = {room.data(), room.bytes()};
            normalize(a, o.stream, state ? keys.as<float>() : nullptr);
        } else if (o.scale != 1) {
            scale_by(out.O.data(), out.O.type(), out.O.size(), static_cast<float>(o.scale), o.stream);
        }
    } else if (out.O.bytes() > 0) {
        // Without ranks every sum is empty, and an output divided by it 0/0.
        check(cudaMemsetAsync(out.O.data(), o.normalize ? 0xFF : 0, out.O.bytes(), o.stream), "clearing the output");
    }
    if (o.return_state) {
        out.state = sums;
        if (o.normalize) {
            out.state = Tensor(DType::f32, state_shape, o.stream);
            copy_columns(out.state.as<float>(), wide, sums.as<float>(), n.d, n.d, rows, o.stream);
            copy_columns(out.state.as<float>() + n.d, wide, keys.as<float>(), 1, 1, rows, o.stream);
        }
    }
    return out;
}

}  // namespace causeway::gpu
