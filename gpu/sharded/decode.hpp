// Queries against a cache of keys and values that is spread over GPUs, combined where it is computed.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>

#include "gpu/base/graph.hpp"
#include "gpu/distributed/team.hpp"
#include "gpu/sharded/partials.hpp"

namespace causeway::gpu::sharded {

// What a rank does for its share of the keys: flash-decoding, NCCL's all-gather of the partial results (o and
// log-sum-exp of every row), and one kernel that merges them, one after the other on the rank's stream; every rank gets
// the result. No CPU is between the queries and it. Where all queries see all keys of the cache.
class ShardedDecode {
public:
    // part: the queries, all of them, and the rank's keys and values (causal = false), without o and workspace; o:
    // [batch, heads · group, N, dv], contiguous; lse may be null. All of them have to stay.
    ShardedDecode(NcclCommunicator& comm, const SoftmaxArgs& part, void* o, float* lse);
    ShardedDecode(const ShardedDecode&) = delete;
    ShardedDecode& operator=(const ShardedDecode&) = delete;

    // Queues the call; every rank has to.
    void queue();
    // The same from a CUDA graph, which the first of these calls makes.
    void replay();

    // What a rank sends: its block to every other one.
    std::size_t block_bytes() const { return blocks_.block_bytes(); }

private:
    cudaStream_t stream() { return *comm_.mine().kernels; }

    NcclCommunicator& comm_;
    SoftmaxArgs part_;
    void* o_;
    float* lse_;
    Partials blocks_;
    Buffer workspace_;
    std::optional<Graph> graph_;
};

}  // namespace causeway::gpu::sharded
