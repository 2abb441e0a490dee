// Rows of a call: where their elements lie, what they see, where their output goes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "gpu/kit/ptx.cuh"
#include "gpu/softmax/online.cuh"
#include "gpu/softmax/params.hpp"

namespace causeway::gpu::softmax {

// One head of k and v with its queries, elements of type E.
template <class E>
struct BatchHead {
    const Params& c;
    int32_t bh, batch, head;

    __device__ BatchHead(const Params& params, int32_t index)
        : c(params), bh(index), batch(index / params.heads), head(index % params.heads) {}

    __device__ const E* q(int32_t row) const {
        return static_cast<const E*>(c.q) + batch * c.q_stride[0] +
               (int64_t{head} * c.group + row % c.group) * c.q_stride[1] + row / c.group * c.q_stride[2];
    }
    __device__ const E* k() const { return static_cast<const E*>(c.k) + batch * c.k_stride[0] + head * c.k_stride[1]; }
    __device__ const E* v() const { return static_cast<const E*>(c.v) + batch * c.v_stride[0] + head * c.v_stride[1]; }
    __device__ const E* k(int32_t key) const { return k() + key * c.k_stride[2]; }
    __device__ const E* v(int32_t key) const { return v() + key * c.v_stride[2]; }
    __device__ E* o(int32_t row) const {
        return static_cast<E*>(c.o) + batch * c.o_stride[0] +
               (int64_t{head} * c.group + row % c.group) * c.o_stride[1] + row / c.group * c.o_stride[2];
    }
    // Number of keys that a row sees: the first ones.
    __device__ int32_t limit(int32_t row) const { return c.causal ? max(0, c.M - c.N + row / c.group + 1) : c.M; }

    // Where the log-sum-exp of a row is: [batch, heads · group, N].
    __device__ float& lse(int32_t row) const {
        return c.lse[((int64_t{batch} * c.heads + head) * c.group + row % c.group) * c.N + row / c.group];
    }
    __device__ int64_t partial_row(int32_t split, int32_t row) const {
        return (int64_t{split} * c.batch_heads + bh) * c.rows + row;
    }
    // lse2: the log-sum-exp in units of log 2.
    __device__ void store_lse(int32_t split, int32_t row, float lse2) const {
        if (c.splits > 1) c.partial_lse[partial_row(split, row)] = lse2;
        else if (c.lse) lse(row) = lse2 * ln2;
    }
};

// The kernel that merges splits may be launched while this one runs; it waits for its end before it reads.
__device__ __forceinline__ void let_merging_start() {
#if __CUDA_ARCH__ >= 900
    ptx::griddepcontrol_launch_dependents();
#endif
}

}  // namespace causeway::gpu::softmax
