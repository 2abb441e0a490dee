// Causal linear attention of one sequence on several workers: the public functions.
#pragma once

#include "core/calls/sharding.hpp"
#include "core/distributed/report.hpp"
#include "core/exact/causal_linear_attention.hpp"
#include "core/gradient/causal_linear_attention_grad.hpp"

namespace causeway {

struct ShardedCausalResult : CausalResult {
    ShardReport report;
};
struct ShardedCausalGradient : CausalGradient {
    ShardReport report;
};

// causal_linear_attention with the tokens spread over sharding.shards workers, as linear_attention_sharded does it
// (core/sharded/linear_attention.hpp): the method has to carry a state. With deterministic = "prefix" and whole blocks
// a worker the bits are those of one worker. Packed sequences (cu_seqlens) are cut where the parts end.
ShardedCausalResult causal_linear_attention_sharded(const Tensor& B, const Tensor& C, const Tensor& V,
                                                    const CausalOptions&, const Sharding&);

// causal_linear_attention_grad likewise; ddecay is the sum over all workers.
ShardedCausalGradient causal_linear_attention_grad_sharded(const Tensor& B, const Tensor& C, const Tensor& V,
                                                           const Tensor& dO, const CausalOptions&, const Sharding&);

}  // namespace causeway
