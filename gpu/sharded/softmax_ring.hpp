// What a GPU computes with its queries and the keys that come round the ring (core/sharded/softmax_ring.hpp).
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "core/sharded/softmax_ring.hpp"
#include "gpu/kit/layout.hpp"

namespace causeway::gpu::sharded {

using causeway::sharded::Communicator;
using causeway::sharded::SoftmaxRing;

// A rank's tensors: of each of its pieces of queries q and o, of each of its pieces of keys k and v, all with strides
// of their own, and where the log-sum-exps of a piece go, contiguous [batch, query heads, tokens].
struct QueryPiece {
    const void* q = nullptr;
    void* o = nullptr;
    Strides q_stride, o_stride;
    float* lse = nullptr;
};
struct KeyPiece {
    const void *k = nullptr, *v = nullptr;
    Strides k_stride, v_stride;
};
struct RingTensors {
    Type type = Type::BFloat16;
    std::vector<QueryPiece> queries;
    std::vector<KeyPiece> keys;
};

// The forward pass of this rank, queued on the stream, where messages are too: o and lse of its queries.
void softmax_ring(Communicator& comm, const SoftmaxRing& z, const RingTensors& x, cudaStream_t stream);

// And of the backward pass: o, lse and dO (with the strides of o) are read, dq has the strides of q.
struct QueryGradPiece {
    const void *q = nullptr, *o = nullptr, *dO = nullptr;
    void* dq = nullptr;
    Strides q_stride, o_stride;
    float* lse = nullptr;  // read alone
};
struct RingGradTensors {
    Type type = Type::BFloat16;
    std::vector<QueryGradPiece> queries;
    std::vector<KeyPiece> keys;
    std::vector<void*> dk, dv;  // of each piece of keys, with the strides of k and v
};

// The backward pass of this rank, queued likewise: dq of its queries, dk and dv of its keys.
void softmax_ring_back(Communicator& comm, const SoftmaxRing& z, const RingGradTensors& x, cudaStream_t stream);

}  // namespace causeway::gpu::sharded
