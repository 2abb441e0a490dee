// Queries over a cache of keys and values of which every rank has a share that grows, as a model decodes over it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <vector>

#include "core/distributed/communicator.hpp"
#include "gpu/base/stream.hpp"
#include "gpu/sharded/partials.hpp"

namespace causeway::gpu::sharded {

// Tree decoding: flash-decoding of the rank's share, an all-gather of the partial results and their merge. Ring
// decoding: the shares go round the ring, the next one on its way while this one is computed on, and every rank
// computes with all of them. All of it is queued; every rank gets the result.
class CachedDecode {
public:
    // The communicator's messages wait for what is queued on `stream`, and the stream for them (QueuedCommunicator).
    CachedDecode(distributed::Communicator& comm, cudaStream_t stream, bool tree)
        : comm_(comm), stream_(stream), tree_(tree) {}
    CachedDecode(const CachedDecode&) = delete;
    CachedDecode& operator=(const CachedDecode&) = delete;

    // a: the queries, all of them, this rank's keys and values, contiguous but for room behind the rows of a head, as
    // much on every rank, and o, contiguous; no query is before a key. lengths: how many keys each rank has, a.M those
    // of this one. What was queued on `caller` happens before, what is queued there next afterwards. Of one size
    // always.
    void attend(const SoftmaxArgs& a, const std::vector<std::int64_t>& lengths, cudaStream_t caller);

private:
    void tree(const SoftmaxArgs& a);
    void ring(const SoftmaxArgs& a, const std::vector<std::int64_t>& lengths);
    void compute(int place, SoftmaxArgs part);

    distributed::Communicator& comm_;
    cudaStream_t stream_;
    bool tree_;
    std::optional<Partials> parts_;
    std::shared_ptr<void> arriving_[2][2];  // of two shares keys and values
    Event before_, after_;
};

}  // namespace causeway::gpu::sharded
