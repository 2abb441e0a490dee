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
    Tensor dstate;                // Float32, with respect to the state before the first token: [b, h, d_k, d_v], or
                                  // the shape of the pool where the states are slots of one
    // Where the options were given, their shapes and types; dlog_decay is then with respect to the projection.
    std::optional<Tensor> dA_log{}, ddt_bias{}, dnorm_weight{}, dnorm_gate{};
};

// linear_attention_grad of core for tensors on the GPU: Float32, Float16 or BFloat16, sums in Float32. Deterministic.
// Throws Error naming the argument, OutOfMemory.
LinearGradient linear_attention_grad(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                     const LinearOptions& = {}, const std::optional<Tensor>& dstate = {});

namespace gated {

// Throws Error where what arrives at the outputs or the last state is not like them.
void check_gradients(const causeway::gated::Sizes& n, const Tensor& v, const Tensor& dO,
                     const std::optional<Tensor>& dstate);
// What arrives at the last states, in Float32 [sequences, heads, d_k, d_v], the caller's to change: zeros where nothing
// does.
Tensor last_gradient(const causeway::gated::Sizes& n, const std::optional<Tensor>& dstate, cudaStream_t);
// The states before the first tokens, in Float32, those of its slots where `state` is a pool; nothing where none is
// given.
std::optional<Tensor> states_before(const causeway::gated::Sizes& n, const std::optional<Tensor>& state, cudaStream_t);
// The gradient of a gate, [batch, heads, N, width], as it was given: summed over the heads where one served all.
Tensor as_given(const Tensor& grad, const Tensor& given, cudaStream_t stream);

}  // namespace gated
}  // namespace causeway::gpu
