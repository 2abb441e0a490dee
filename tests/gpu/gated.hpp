// Problems of the gated and delta-rule family in device memory.
#pragma once

#include <limits>

#include "gpu/gated/problem.hpp"
#include "gpu/tensor/tensor.hpp"
#include "tests/core/exact/problems.hpp"
#include "tests/core/gated/problems.hpp"
#include "tests/gpu/device.hpp"
#include "tests/temporary.hpp"

namespace causeway::test {

using testing::message_of;

// Inputs that the element type of the GPU has exactly, so that only the method's own error is measured.
inline GatedInputs rounded_to(const GatedInputs& in, DType type) {
    GatedInputs out = in;
    out.q = in.q.to(type).to(DType::f64), out.k = in.k.to(type).to(DType::f64), out.v = in.v.to(type).to(DType::f64);
    return out;
}

// A call's tensors; outputs are poisoned while a Poison lives.
struct GatedCall {
    gpu::Tensor q, k, v, o, g, beta, state, workspace;
    gpu::GatedArgs args;

    // With `pad`, rows lie that many elements apart more than they are wide, and heads one token further.
    GatedCall(const GatedInputs& in, DType type, Index pad = 0) {
        const auto &qs = in.q.shape(), &ks = in.k.shape();
        const Index B = ks[0], H = ks[1], N = ks[2], dk = ks[3], dv = in.v.shape()[3], HQ = qs[1];
        const auto spread = [&](const Tensor& x) {
            const auto& s = x.shape();
            const Index W = s[3] + pad, L = s[2] + (pad > 0 ? 1 : 0);
            Tensor out = Tensor::full(type, {s[0], s[1], L, W}, 777);
            for (Index r = 0; r < s[0] * s[1]; ++r) {
                for (Index t = 0; t < s[2]; ++t) {
                    for (Index c = 0; c < s[3]; ++c) out.set((r * L + t) * W + c, x.get((r * s[2] + t) * s[3] + c));
                }
            }
            return out;
        };
        q = gpu::Tensor(spread(in.q)), k = gpu::Tensor(spread(in.k)), v = gpu::Tensor(spread(in.v));
        const Index L = N + (pad > 0 ? 1 : 0);
        o = gpu::Tensor(type, {B, HQ, L, dv + pad});
        if (in.options.log_decay) g = gpu::Tensor(in.options.log_decay->to(DType::f32));
        if (in.options.beta) beta = gpu::Tensor(in.options.beta->to(DType::f32));
        if (in.options.state) state = gpu::Tensor(in.options.state->to(DType::f32).copy());
        args.q = q.data(), args.k = k.data(), args.v = v.data(), args.o = o.data();
        args.type = gpu::type_of(type), args.B = B, args.H = H, args.N = N;
        args.group = static_cast<int>(HQ / H), args.dk = static_cast<int>(dk), args.dv = static_cast<int>(dv);
        const auto strides = [&](Index heads, Index width) {
            return gpu::Strides{heads * L * (width + pad), L * (width + pad), width + pad};
        };
        args.q_stride = strides(HQ, dk), args.k_stride = strides(H, dk), args.v_stride = strides(H, dv),
        args.o_stride = strides(HQ, dv);
        if (in.options.log_decay)
            args.g = g.as<float>(), args.gates = in.options.log_decay->ndim() == 4 ? static_cast<int>(dk) : 1;
        if (in.options.beta) args.beta = beta.as<float>();
        if (in.options.state) args.state = state.as<float>();
        args.scale = static_cast<float>(in.options.scale);
    }

    void give_workspace(std::size_t bytes) {
        workspace = gpu::Tensor(DType::f32, {static_cast<Index>((bytes + 3) / 4)});
        args.workspace = {workspace.data(), bytes};
    }
};

// The rows of a tensor that was spread by `pad`.
inline Tensor gathered(const gpu::Tensor& x, Index N, Index width) {
    const Tensor all = x.cpu();
    const auto& s = all.shape();
    Tensor out(all.dtype(), {s[0], s[1], N, width});
    for (Index r = 0; r < s[0] * s[1]; ++r) {
        for (Index t = 0; t < N; ++t) {
            for (Index c = 0; c < width; ++c) out.set((r * N + t) * width + c, all.get((r * s[2] + t) * s[3] + c));
        }
    }
    return out;
}

// A value as large as Float32 has, at token 5 of every head of the case, whose keys and scale become so small that
// results fit in: hi + lo (gpu/kit/tf32.cuh) of it is a NaN.
inline GatedInputs with_largest(GatedCase& c) {
    c.key_norm = c.scale = 1e-6, c.state = false;
    GatedInputs in = gated_inputs(c);
    for (Index head = 0; head < c.batch * c.heads; ++head)
        in.v.set((head * c.N + 5) * c.dv + 3, std::numeric_limits<float>::max());
    return in;
}

// Of relative_error: the sum's own error, and what rounding the outputs to their type adds.
inline double rounding_of(DType type) { return type == DType::f32 ? 0 : type == DType::bf16 ? 3e-3 : 4e-4; }

}  // namespace causeway::test
