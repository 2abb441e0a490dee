#include "gpu/calls/linear_attention.hpp"

#include <algorithm>

#include "core/base/text.hpp"
#include "core/gated/registry.hpp"
#include "gpu/base/error.hpp"
#include "gpu/calls/packed.hpp"
#include "gpu/exact/causal_linear_attention.hpp"
#include "gpu/gated/registry.hpp"
#include "gpu/gated/step.hpp"
#include "gpu/tensor/elementwise.hpp"

namespace causeway::gpu {
namespace gated {
namespace {

// A gate [batch, heads or 1, N(, width)] in Float32 as [batch, heads, N, width].
Tensor each_head_of(const Tensor& given, const Shape& full, cudaStream_t stream) {
    const Tensor a = given.to(DType::f32, stream);
    if (a.size() == full.size()) return a.reshape(full);
    Tensor out(DType::f32, full, stream);
    const Index row = full[2] * full[3];
    const auto bytes = static_cast<std::size_t>(row) * sizeof(float);
    for (Index h = 0; h < full[1] && bytes > 0; ++h) {
        gpu::check(
            cudaMemcpy2DAsync(out.as<float>() + h * row, static_cast<std::size_t>(full[1]) * bytes, a.as<float>(),
                              bytes, bytes, static_cast<std::size_t>(full[0]), cudaMemcpyDeviceToDevice, stream),
            "copying gates");
    }
    return out;
}

std::optional<causeway::Tensor> form_of(const std::optional<Tensor>& x) {
    if (!x) return {};
    return x->form();
}

}  // namespace

Call check(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions& o) {
    refuse_packed(o.cu_seqlens, o.state_indices);
    if (o.checkpoint_every > 0) fail("checkpoint_every: given, but on the GPU the last state alone is returned");
    causeway::LinearOptions forms;
    forms.update = o.update, forms.mode = o.mode, forms.scale = o.scale;
    forms.log_decay = form_of(o.log_decay), forms.beta = form_of(o.beta), forms.state = form_of(o.state);
    Call c{causeway::gated::check_sizes(q.form(), k.form(), v.form(), forms), {}, {}, {}};
    const auto& n = c.sizes;
    if (n.shared_keys > 1 || n.shared_queries > 1)
        fail("v: heads ", n.heads, ", expected no more than those of q, and those of k, on the GPU");
    constexpr Index max_width = 256;
    if (n.gates > 1) check_channels(o.mode);
    if (n.dk > max_width || n.dv > max_width)
        fail("q: widths ", n.dk, " and ", n.dv, " of k and v, expected at most ", max_width, " on the GPU");
    GatedArgs& a = c.args;
    a.q = q.data(), a.k = k.data(), a.v = v.data();
    a.type = q.type();
    a.B = n.batch, a.H = n.heads, a.N = n.N;
    a.group = static_cast<int>(n.group), a.dk = static_cast<int>(n.dk), a.dv = static_cast<int>(n.dv);
    a.q_stride = contiguous(n.heads * n.group, n.N, a.dk), a.k_stride = contiguous(n.heads, n.N, a.dk);
    a.v_stride = contiguous(n.heads, n.N, a.dv), a.o_stride = contiguous(n.heads * n.group, n.N, a.dv);
    a.scale = static_cast<float>(n.scale);
    if (causeway::gated::has_gate(n.update)) {
        c.log_decay = each_head_of(*o.log_decay, {n.batch, n.heads, n.N, n.gates}, o.stream);
        a.gates = static_cast<int>(n.gates);
        a.g = c.log_decay.as<float>();
        if (o.check_gates) {
            const Buffer found(sizeof(std::int64_t), o.stream);
            const Index at = first_above_zero(a.g, c.log_decay.size(), found.as<std::int64_t>(), o.stream);
            if (at < c.log_decay.size())
                fail("log_decay: a number above 0 or NaN in element ", at + 1,
                     ", expected numbers <= 0 (the state is multiplied by their exponentials)");
        }
    }
    if (causeway::gated::has_delta(n.update)) {
        c.beta = each_head_of(*o.beta, {n.batch, n.heads, n.N, 1}, o.stream);
        a.beta = c.beta.as<float>();
    }
    return c;
}

}  // namespace gated

LinearResult linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions& o) {
    refuse_in_place(o.inplace);
    gated::Call call = gated::check(q, k, v, o);
    GatedArgs& a = call.args;
    const Shape& state_shape = call.sizes.state_shape;
    // Without gates and the delta rule, in chunks: causal linear attention.
    if (!a.g && !a.beta && a.group == 1 && a.type != Type::Float32 && causeway::gated::modes()[o.mode].chunk) {
        CausalOptions plain;
        plain.scale = o.scale;
        if (o.state) plain.state = o.state->to(DType::f32, o.stream).reshape(state_shape);
        plain.return_state = true;
        plain.stream = o.stream;
        const CausalResult result = causal_linear_attention(q, k, v, plain);
        return {result.O, result.state};
    }
    LinearResult out{Tensor(q.dtype(), call.sizes.output, o.stream),
                     o.state ? o.state->own(DType::f32, o.stream).reshape(state_shape)
                             : Tensor::zeros(DType::f32, state_shape, o.stream)};
    a.o = out.O.data(), a.state = out.state.as<float>();
    if (out.O.size() == 0 && out.state.size() == 0) return out;
    const GatedForm& form = gated_form(o.mode, a);
    const Buffer workspace(form.workspace(a), o.stream);
    a.workspace = {workspace.data(), workspace.bytes()};
    form.run(a, o.stream);
    return out;
}

void linear_attention_step(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& state, Tensor& O,
                           const LinearOptions& o) {
    if (o.state) fail("state: an option, expected the argument state alone");
    gated::Call call = gated::check(q, k, v, o);
    GatedArgs& a = call.args;
    if (a.N != 1) fail("q: ", a.N, " tokens, expected 1");
    if (state.dtype() != DType::f32) fail("state: ", name(state.dtype()), ", expected Float32");
    causeway::gated::check_state(state.form(), v.form(), call.sizes, true);
    if (O.dtype() != q.dtype() || O.shape() != call.sizes.output)
        fail("O: a ", O.summary(), ", expected ", call.sizes.output.text(), " ", name(q.dtype()));
    a.o = O.data(), a.state = state.as<float>();
    gated_step(a, o.stream);
}

}  // namespace causeway::gpu
