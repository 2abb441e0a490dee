// The exact gradients of linear attention by the general rule on the GPU: the public function, where everything is
// checked.
#pragma once

#include <optional>

#include "gpu/calls/general_linear_attention.hpp"

namespace causeway::gpu {

struct GeneralGradient {
    Tensor dq, dk, dv;             // shapes and type of q, k, v
    std::optional<Tensor> da;      // where a is given, shape and type of it: with respect to the factor
    std::optional<Tensor> du, dw;  // where u and w are given
    Tensor dstate;                 // Float32 [b, h, d_k, d_v], with respect to the state before the first token
};

// general_linear_attention_grad of core for tensors on the GPU, types and widths as general_linear_attention has them.
// Token by token, from states that are kept on the way, whatever the mode; packed sequences one after the other. The
// same bits in every run. Throws Error naming the argument, OutOfMemory.
GeneralGradient general_linear_attention_grad(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                              const GeneralOptions& = {}, const std::optional<Tensor>& dstate = {});

}  // namespace causeway::gpu
