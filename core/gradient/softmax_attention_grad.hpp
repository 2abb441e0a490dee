// The exact gradients of softmax attention: the public function, where everything is checked.
#pragma once

#include <optional>

#include "core/softmax/softmax_attention.hpp"

namespace causeway {

struct SoftmaxGradient {
    Tensor dq, dk, dv;  // shapes and type of q, k, v
};

// The gradient of <O, dO> for O = softmax_attention(q, k, v, options).O: dO has the shape of O and the type of q.
// options.method "standard" is the definition (core/gradient/softmax.hpp), "flash" goes through tiles of 128 queries
// and 128 keys, with the weights computed again: O(h_q·N·M·(d + d_v)) time, never N·M memory. `forward`: what the
// forward pass returned for the same arguments; none: it is run again. Float16 and BFloat16 are computed in Float32.
// The result does not depend on the number of threads. Throws Error naming the argument, OutOfMemory, Interrupted,
// Timeout.
SoftmaxGradient softmax_attention_grad(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                       const SoftmaxOptions& = {}, const std::optional<SoftmaxResult>& forward = {});

namespace gradient {

// Everything of such a call that is checked.
attention::Sizes check_softmax_grad(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                    const SoftmaxOptions&, const std::optional<SoftmaxResult>& forward);

}  // namespace gradient
}  // namespace causeway
