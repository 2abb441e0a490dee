// Softmax attention of one text on several workers: the public functions.
#pragma once

#include "core/calls/sharding.hpp"
#include "core/distributed/report.hpp"
#include "core/gradient/softmax_attention_grad.hpp"
#include "core/softmax/softmax_attention.hpp"

namespace causeway {

struct ShardedSoftmaxResult : SoftmaxResult {
    ShardReport report;
};
struct ShardedSoftmaxGradient : SoftmaxGradient {
    ShardReport report;
};

// softmax_attention with queries and keys spread over sharding.shards workers (core/sharded/softmax_ring.hpp); every
// worker gets the whole result. causal needs as many queries as keys; each worker then computes with one piece from the
// front and one from the back of the text, so that all have the same work, which with `sizes` they have not. Under MPI
// every rank makes the same call; with sharding.sharded each gives its own part of q, k and v, in the order of the
// ranks, and gets its part of O and lse; with causal the pieces are sent to where they are computed with, and the
// results back. With exchange "heads", which "auto" is with causal where every worker gets as many heads of k, each
// worker computes all tokens of some heads, to the bit of one worker. Of packed sequences (cu_seqlens) each is cut so.
// O(h_q·N·M·(d + d_v)/p) time a worker beside the ring; memory of a worker two parts of k and v. Throws as
// softmax_attention and linear_attention_sharded do.
ShardedSoftmaxResult softmax_attention_sharded(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxOptions&,
                                               const Sharding&);

// softmax_attention_grad likewise, by the tiles of "flash"; `forward` is whole, or the rank's part, as q is.
ShardedSoftmaxGradient softmax_attention_grad_sharded(const Tensor& q, const Tensor& k, const Tensor& v,
                                                      const Tensor& dO, const SoftmaxOptions&,
                                                      const std::optional<SoftmaxResult>& forward, const Sharding&);

}  // namespace causeway
