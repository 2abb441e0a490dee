// Softmax attention with its text, or a cache of keys, on several GPUs: the public functions.
#pragma once

#include "core/calls/decode.hpp"
#include "core/calls/sharding.hpp"
#include "core/distributed/report.hpp"
#include "gpu/gradient/softmax_attention_grad.hpp"

namespace causeway::gpu {

struct ShardedSoftmaxResult : SoftmaxResult {
    ShardReport report;
};

// softmax_attention with queries and keys spread over sharding.shards GPUs of this process: keys and values go round a
// ring while the kernels of one GPU compute with those that have come, and the results of a query are merged by their
// log-sum-exp, in Float32 (core/sharded/softmax_ring.hpp; with causal every GPU has one piece from the front and one
// from the back). Unless the exchange is named, causal attention of as many heads of keys for every GPU goes by heads:
// each has all tokens of its own. The tensors are on the current GPU, which is one of them; the others get copies of
// their parts, and the report leaves out what that takes. Throws Error naming the argument; OutOfMemory; a GPU that
// fails ends all.
ShardedSoftmaxResult softmax_attention_sharded(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxOptions&,
                                               const Sharding&);

struct ShardedSoftmaxGradient : SoftmaxGradient {
    ShardReport report;
};

// softmax_attention_grad likewise: the gradients of keys and values, in Float32, go round with them and once more,
// home. The report is of the backward pass alone.
ShardedSoftmaxGradient softmax_attention_grad_sharded(const Tensor& q, const Tensor& k, const Tensor& v,
                                                      const Tensor& dO, const SoftmaxOptions&,
                                                      const std::optional<SoftmaxResult>& forward, const Sharding&);

// tree_decode of core for tensors on the GPU: partial results are gathered by NCCL and merged on every GPU by one
// kernel, so the options are those of the default, one packed all-reduce; all queries see all keys. As above the report
// leaves out what it takes to spread the cache.
ShardedSoftmaxResult tree_decode(const Tensor& q, const Tensor& k, const Tensor& v, const DecodeOptions& = {});

}  // namespace causeway::gpu
