// The gradients of linear attention of one sequence on several GPUs: the public functions.
#pragma once

#include "core/calls/sharding.hpp"
#include "core/distributed/report.hpp"
#include "gpu/gradient/causal_linear_attention_grad.hpp"
#include "gpu/gradient/linear_attention_grad.hpp"

namespace causeway::gpu {

struct ShardedLinearGradient : LinearGradient {
    ShardReport report;
};

struct ShardedCausalGradient : CausalGradient {
    ShardReport report;
};

// causal_linear_attention_grad so, as that of gated attention with a constant gate; normalised, as that of V with a
// column of ones, whose forward pass comes first and is not in the report.
ShardedCausalGradient causal_linear_attention_grad_sharded(const Tensor& B, const Tensor& C, const Tensor& V,
                                                           const Tensor& dO, const CausalOptions&, bool decay_too,
                                                           const Sharding&);

// linear_attention_grad with the tokens spread over sharding.shards GPUs of this process: the ring of states, and the
// gradients of the states the other way (core/sharded/states.hpp), or by heads. The tensors are where those of
// linear_attention_sharded are (gpu/sharded/linear_attention.hpp). Throws Error naming the argument; OutOfMemory.
ShardedLinearGradient linear_attention_grad_sharded(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                                    const LinearOptions&, const std::optional<Tensor>& dstate,
                                                    const Sharding&);

}  // namespace causeway::gpu
