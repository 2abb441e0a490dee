// One token of linear attention, or some: what generation does between two words of its output, and what it does where
// several words are guessed ahead and some of them taken back.
#pragma once

#include <vector>

#include "core/gated/linear_attention.hpp"

namespace causeway {

// A step takes so many tokens at most.
constexpr Index most_step_tokens = 16;

// linear_attention with T tokens, 1 to 16, advancing `state` in place: q [b, h_q, T, d_k], k [b, h_k, T, d_k], v [b, h,
// T, d_v] (or without b, or without b and heads), log_decay [b, h, T] or [b, h, T, d_k], beta [b, h, T], state [b, h,
// d_k, d_v] or with state_indices a pool [slots, h, d_k, d_v], in Float32 (Float64 inputs: Float64), or stored in
// Float16 or BFloat16, where it is computed in Float32 and rounded once a call; O of the shape of linear_attention's
// and the type of q, whatever it held before. `states`, where given, becomes the T states after each token. mode and
// chunk of the options do nothing here, and the state is not among them. The bits are those of T steps of one token.
// O(T·b·h·d_k· d_v) time: of one token, every element of the state is read from memory once and written once. Without
// `states` and state_indices it allocates nothing where all tensors have the type of the state; what has another is
// converted. Throws Error naming the argument, before anything is changed; after Interrupted or Timeout some heads of
// the state are advanced and the others are not.
void linear_attention_step(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& state, Tensor& O,
                           const LinearOptions& = {}, std::vector<Tensor>* states = nullptr);

namespace gated {

// Throws Error where a step does not take a call of these sizes: its number of tokens, its options, the state and O,
// and memory that would be written and is read. No element is looked at, so that the tensors may be views of memory
// that the CPU does not reach.
void check_step(const Sizes&, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& state, const Tensor& O,
                const LinearOptions&);

}  // namespace gated
}  // namespace causeway
