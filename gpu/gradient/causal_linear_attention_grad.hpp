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

// causal_linear_attention_grad of core for tensors on the GPU. Without a state, without normalize and without gradients
// of the decay (none given, or `decay_too` false) it is three calls of the fused kernel of lightning-attention-2; else
// the gradient of gated attention with a constant gate. A packed sequence is a call of its own, and has its bits;
// states may be slots of a pool, whose gradient dstate then is. Throws Error naming the argument, OutOfMemory.
CausalGradient causal_linear_attention_grad(const Tensor& B, const Tensor& C, const Tensor& V, const Tensor& dO,
                                            const CausalOptions& = {}, bool decay_too = true);

}  // namespace causeway::gpu
