// One token of linear attention: what generation does between two words of its output.
#pragma once

#include "core/gated/linear_attention.hpp"

namespace causeway {

// linear_attention with N = 1, advancing `state` in place: q [b, h_q, 1, d_k], k [b, h, 1, d_k], v [b, h, 1, d_v] (or
// without b, or without b and heads), log_decay [b, h, 1] or [b, h, 1, d_k], beta [b, h, 1], state [b, h, d_k, d_v] in
// Float32 (Float64 inputs: Float64), O [b, h_q, 1, d_v] of the type of q, whatever it held before. mode and chunk of
// the options do nothing here, and the state is not among them. O(b·h·d_k·d_v) time: every element of the state is read
// from memory once and written once. Allocates nothing where all tensors have the type of the state; what has another
// is converted. Throws Error naming the argument, before anything is changed; after Interrupted or Timeout some heads
// of the state are advanced and the others are not.
void linear_attention_step(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& state, Tensor& O,
                           const LinearOptions& = {});

}  // namespace causeway
