// The exact gradients of softmax attention on the GPU: the public function, where everything is checked.
#pragma once

#include <optional>

#include "gpu/softmax/softmax_attention.hpp"

namespace causeway::gpu {

struct SoftmaxGradient {
    Tensor dq, dk, dv;  // shapes and type of q, k, v
};

// softmax_attention_grad of core for tensors on the GPU, by recomputation. `forward`: what softmax_attention returned
// for the same arguments; none: it is run again. Deterministic. Throws Error naming the argument, OutOfMemory.
SoftmaxGradient softmax_attention_grad(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                       const SoftmaxOptions& = {}, const std::optional<SoftmaxResult>& forward = {});

namespace softmax {

// Throws Error where what arrives at the outputs, or what the forward pass returned, is not like them.
void check_gradients(const causeway::attention::Sizes& n, const Tensor& dO,
                     const std::optional<SoftmaxResult>& forward);

}  // namespace softmax
}  // namespace causeway::gpu
