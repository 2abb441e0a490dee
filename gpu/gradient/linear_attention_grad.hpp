// The exact gradients of linear attention with gates and delta rules on the GPU: the public function, where everything
// is checked.
#pragma once

#include <optional>

#include "gpu/calls/linear_attention.hpp"

namespace causeway::gpu {

struct LinearGradient {
    Tensor dq, dk, dv;  // shapes and type of q, k, v
    std::optional<Tensor>
        dlog_decay;               // where the update has it, shape and type of log_decay: with respect to g, not e^g
    std::optional<Tensor> dbeta;  // where the update has it, shape and type of beta
    Tensor dstate;                // Float32 [b, h, d_k, d_v], with respect to the state before the first token
};

// linear_attention_grad of core for tensors on the GPU: Float32, Float16 or BFloat16, sums in Float32. Deterministic.
// Throws Error naming the argument, OutOfMemory.
LinearGradient linear_attention_grad(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                     const LinearOptions& = {}, const std::optional<Tensor>& dstate = {});

namespace gated {

// Throws Error where what arrives at the outputs or the last state is not like them.
void check_gradients(const causeway::gated::Sizes& n, const Tensor& v, const Tensor& dO,
                     const std::optional<Tensor>& dstate);
// The gradient of a gate, [batch, heads, N, width], as it was given: summed over the heads where one served all.
Tensor as_given(const Tensor& grad, const Tensor& given, cudaStream_t stream);

}  // namespace gated
}  // namespace causeway::gpu
