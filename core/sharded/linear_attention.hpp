// Linear attention of one sequence on several workers: the public functions.
#pragma once

#include "core/calls/sharding.hpp"
#include "core/distributed/report.hpp"
#include "core/gated/linear_attention.hpp"
#include "core/gradient/linear_attention_grad.hpp"

namespace causeway {

struct ShardedLinearResult : LinearResult {
    ShardReport report;
};
struct ShardedLinearGradient : LinearGradient {
    ShardReport report;
};

// linear_attention with the tokens spread over sharding.shards workers (core/sharded/states.hpp); every worker gets the
// whole result. With whole chunks a worker and exchange "ring", which "auto" is with deterministic = "prefix", the bits
// are those of one worker. Under MPI every rank makes the same call; with sharding.sharded each gives its own part of
// q, k, v, log_decay and beta, in the order of the ranks, with the state before the first token, and gets its part of O
// and the state after the last one; cu_seqlens are then the offsets in the tokens of all ranks, alike on each.
// O(N/p·(d_k·d_v + chunk·(d_k + d_v))) time a worker beside the exchange; memory of a worker beside its tokens d_k·d_v
// a state, or what the exchange says. Throws Error naming the argument and, where ranks differ, the rank; OutOfMemory,
// Interrupted, Timeout; a worker that fails ends all.
ShardedLinearResult linear_attention_sharded(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions&,
                                             const Sharding&);

// linear_attention_grad likewise: a ring of states, and the gradients of the states the other way; or with exchange
// "heads" all tokens of some heads on each worker, as the forward pass may have it too, which sends no states but q, k,
// v and the results (core/sharded/all_to_all.hpp), has the bits of one worker and no use for more workers than heads.
ShardedLinearGradient linear_attention_grad_sharded(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                                    const LinearOptions&, const std::optional<Tensor>& dstate,
                                                    const Sharding&);

}  // namespace causeway
