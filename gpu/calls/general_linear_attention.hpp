// Linear attention by the general rule on the GPU: the public functions, where everything is checked.
#pragma once

#include "core/gated/general/general_linear_attention.hpp"
#include "gpu/calls/linear_attention.hpp"
#include "gpu/gated/general/problem.hpp"

namespace causeway::gpu {

// The options that core/calls/general_linear_attention.hpp describes, and the stream that everything is queued on.
struct GeneralOptions : calls::GeneralOptions<Tensor> {
    cudaStream_t stream = nullptr;
};

// general_linear_attention of core for tensors on the GPU: Float32, Float16 or BFloat16 for q, k and v, of which widths
// are at most 256; each of a, u and w may have another of these types, as Float32 beside BFloat16 (a factor near 1
// needs it). Sums and states are Float32. Returns when everything is queued on options.stream. mode: "chunkwise" or
// "recurrent". Heads, packed sequences, pools of states, inplace and checkpoint_every are as on the CPU; both modes
// keep deterministic = "prefix" while all numbers are finite. Packed sequences are computed together, unless
// checkpoint_every is given; each has the bits of a call of its own, as has what lies between two checkpoints. A CUDA
// graph may capture the call, and keeps which sequences there are. Throws Error naming the argument, OutOfMemory.
LinearResult general_linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, const GeneralOptions& = {});

// 1 to 16 tokens, advancing `state` in place, as general_linear_attention_step of core does: a pool with state_indices,
// states in 16 bits too, and the states after each token where `states` is given.
void general_linear_attention_step(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& state, Tensor& O,
                                   const GeneralOptions& = {}, std::vector<Tensor>* states = nullptr);

namespace gated {

// A checked call: `args` holds everything but outputs, state and workspace.
struct GeneralCall {
    causeway::gated::GeneralSizes sizes;
    GeneralArgs args;
};
GeneralCall check_general(const Tensor& q, const Tensor& k, const Tensor& v, const GeneralOptions&);

// The options as those of the CPU, of forms alone.
causeway::GeneralOptions forms_of(const GeneralOptions&);

// The call on the tokens of a piece, from the state of its sequence.
GeneralArgs args_of(const GeneralArgs& all, const Piece& piece);

}  // namespace gated
}  // namespace causeway::gpu
