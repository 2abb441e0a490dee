// Results of softmax attention over several parts of the keys, side by side, and the one that they make together.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/base/buffer.hpp"
#include "gpu/softmax/problem.hpp"

namespace causeway::gpu::sharded {

// `count` blocks of one length: o of every row in the type of the queries, contiguous [batch, heads · group, N, dv],
// and its log-sum-exp. They may be gathered from ranks, one block each.
class Partials {
public:
    // Of calls with the batch, heads, N, dv and type of `a`.
    Partials(const SoftmaxArgs& a, int count);

    // Queues flash-decoding of a part, without o and lse; without keys its block has zeros without weight.
    void compute(int place, const SoftmaxArgs& part, cudaStream_t stream) const;
    // Queues the merge of all blocks; o contiguous, lse [rows] or null.
    void merge(void* o, float* lse, cudaStream_t stream) const;

    char* block(int place) const { return blocks_.as<char>() + static_cast<std::size_t>(place) * bytes_; }
    std::size_t block_bytes() const { return bytes_; }
    // Of part, as compute() needs it.
    std::size_t workspace(const SoftmaxArgs& part) const;

private:
    SoftmaxArgs in_block(int place, const SoftmaxArgs& part) const;

    int count_, dv_;
    Type type_;
    std::int64_t rows_;
    std::size_t lse_at_, bytes_;
    Buffer blocks_;
};

}  // namespace causeway::gpu::sharded
