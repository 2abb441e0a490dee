// Causal linear attention on the GPU: the public function, where everything is checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/exact/causal_linear_attention.hpp"
#include "gpu/exact/registry.hpp"
#include "gpu/tensor/tensor.hpp"

namespace causeway::gpu {

// The options that core/calls/causal_linear_attention.hpp describes, and the stream that everything is queued on.
struct CausalOptions : calls::CausalOptions<Tensor> {
    cudaStream_t stream = nullptr;
};

struct CausalResult {
    Tensor O;                           // shape and type of V
    Tensor state;                       // Float32; only with return_state; in place: what was given
    std::optional<Tensor> checkpoints;  // Float32, as those of causeway::CausalResult
};

// causal_linear_attention of core for tensors on the GPU: Float32, Float16 or BFloat16, sums in Float32. Returns when
// everything is queued on options.stream, without waiting for it; tensors must stay until then. Packed sequences, pools
// of states, inplace and checkpoint_every are as on the CPU; a sequence, and what lies between two checkpoints, is
// queued as a call of its own and has its bits. Heads may be grouped as there: then heads of the output that share
// nothing are copied out and computed together, part by part. Throws Error naming the argument, OutOfMemory.
CausalResult causal_linear_attention(const Tensor& B, const Tensor& C, const Tensor& V, const CausalOptions& = {});

// The method for a call with this block: "auto" is lightning-attention-2, with a block that it is not built for
// block-based. Throws Error for an unknown name, and for a block below 1, that the method has not, or that it is not
// built for. Needs no GPU.
const CausalMethod& method_for(const std::string& name, std::optional<Index> block);

// Throws Error where packed sequences, states, slots or checkpoints do not fit a call of these sizes. Needs no GPU.
void check_states(const causeway::exact::Dimensions& n, const CausalOptions& o);

// States of normalised attention [.., .., r, d + 1] as those of its outputs [.., .., r, d] and the sums of keys [..,
// .., r] that these are divided by, new tensors in Float32; and together again.
struct NormalStates {
    Tensor sums, keys;
};
NormalStates split_states(const Tensor& wide, cudaStream_t stream);
Tensor joined_states(const Tensor& sums, const Tensor& keys, cudaStream_t stream);

// The problem of checked tensors; `gamma` is what check_decay made of the decays, and must stay. Output, state and
// workspace: the caller's.
CausalArgs causal_args(const Tensor& B, const Tensor& C, const Tensor& V, const causeway::exact::Dimensions& n,
                       const std::vector<double>& gamma, Precision precision);

}  // namespace causeway::gpu
