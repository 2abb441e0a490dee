// Linear attention of one sequence on several GPUs: the public functions.
#pragma once

#include "core/calls/sharding.hpp"
#include "core/distributed/report.hpp"
#include "gpu/calls/linear_attention.hpp"
#include "gpu/exact/causal_linear_attention.hpp"

namespace causeway::gpu {

struct ShardedLinearResult : LinearResult {
    ShardReport report;
};
struct ShardedCausalResult : CausalResult {
    ShardReport report;
};

// linear_attention with the tokens spread over sharding.shards GPUs of this process, as linear_attention_sharded of
// core does it over threads (core/sharded/states.hpp), by the kernels of one GPU. The tensors are on the current GPU,
// which is one of them; the others get copies of their parts from it, and the report leaves out what that takes. Heads
// that forget are not waited for; where what came is not forgotten, or no number, the head is computed once more from
// it. Messages travel by NCCL, and no GPU waits for a CPU before that is known. Packed sequences (cu_seqlens) are cut
// where the parts end; with exchange "heads" a rank makes the call of one GPU on some heads, which may share keys and
// queries then. Throws Error naming the argument; OutOfMemory; a GPU that fails ends all.
ShardedLinearResult linear_attention_sharded(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions&,
                                             const Sharding&);

// causal_linear_attention likewise, by a method that carries a state.
ShardedCausalResult causal_linear_attention_sharded(const Tensor& B, const Tensor& C, const Tensor& V,
                                                    const CausalOptions&, const Sharding&);

}  // namespace causeway::gpu
