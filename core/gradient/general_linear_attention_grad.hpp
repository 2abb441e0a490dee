// The exact gradients of linear attention by the general rule: the public function, where everything is checked.
#pragma once

#include <optional>

#include "core/gated/general/general_linear_attention.hpp"

namespace causeway {

struct GeneralGradient {
    Tensor dq, dk, dv;         // shapes and type of q, k, v
    std::optional<Tensor> da;  // where a is given, shape and type of it: with respect to the factor, not its logarithm
    std::optional<Tensor> du, dw;  // where u and w are given
    Tensor dstate;                 // with respect to the state before the first token (zeros if none was given),
                                   // [b, h, d_k, d_v]; Float32, for Float64 inputs Float64
};

// The gradient of <O, dO> + <final state, dstate> for (O, final state) = general_linear_attention(q, k, v, options), as
// linear_attention_grad has it: inputs whose heads serve several states have the sum over them, packed sequences are
// calls with each alone. options.mode says what is stored: "recurrent" and "parallel" every state (N·d_k·d_v memory),
// "chunkwise" one in `chunk` tokens, from which the others are made again. O(N·d_k·d_v) time. Throws Error naming the
// argument, OutOfMemory, Interrupted, Timeout.
GeneralGradient general_linear_attention_grad(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                              const GeneralOptions& = {}, const std::optional<Tensor>& dstate = {});

}  // namespace causeway
