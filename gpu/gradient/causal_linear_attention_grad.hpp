// The exact gradients of causal linear attention on the GPU: the public function, where everything is checked.
#pragma once

#include <optional>
#include <vector>

#include "gpu/exact/causal_linear_attention.hpp"

namespace causeway::gpu {

struct CausalGradient {
    Tensor dB, dC, dV;  // shapes and type of B, C, V
    std::optional<Tensor>
        ddecay;  // Float32, one for each γ given; one for all heads has the sum over them; over batches always
    std::optional<Tensor> dstate;  // where a state was given: with respect to it, its shape, Float32
};

// Throws Error naming the argument of the gradient that does not fit the others, or cannot be computed.
void check_causal_gradient(const causeway::exact::Dimensions& n, const Tensor& V, const Tensor& dO,
                           const CausalOptions&);

// A constant decay as gates, [batch, heads, N] in Float32: its logarithm for every token. decay: one for all heads, or
// one for each; none is refused by whoever calls.
Tensor constant_gates(const std::vector<double>& decay, Index batch, Index heads, Index N, cudaStream_t stream);

// The gradient with respect to the decays, from that with respect to their gates: Float32, one for each decay.
Tensor gradient_of_decays(const Tensor& dg, const Tensor& gates, std::size_t decays, cudaStream_t stream);

// causal_linear_attention_grad of core for tensors on the GPU. Without a state, without normalize and without gradients
// of the decay (none given, or `decay_too` false) it is three calls of the fused kernel of lightning-attention-2; else
// the gradient of gated attention with a constant gate. A packed sequence is a call of its own, and has its bits;
// states may be slots of a pool, whose gradient dstate then is. Throws Error naming the argument, OutOfMemory.
CausalGradient causal_linear_attention_grad(const Tensor& B, const Tensor& C, const Tensor& V, const Tensor& dO,
                                            const CausalOptions& = {}, bool decay_too = true);

}  // namespace causeway::gpu
