// Rows of a call: where their elements lie, what they see, where their output goes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "gpu/softmax/call.hpp"

namespace causeway::gpu::softmax {

constexpr float minus_infinity = -__builtin_huge_valf(), ln2 = 0.69314718055994531f;

// One head of k and v with its queries, elements of type E.
template <class E>
struct Line {
    const Call& c;
    int32_t line, batch, head;

    __device__ Line(const Call& call, int32_t index)
        : c(call), line(index), batch(index / call.heads), head(index % call.heads) {}

    __device__ const E* q(int32_t row) const {
        return static_cast<const E*>(c.q) + batch * c.q_stride[0] +
               (int64_t{head} * c.group + row % c.group) * c.q_stride[1] + row / c.group * c.q_stride[2];
    }
    __device__ const E* k() const { return static_cast<const E*>(c.k) + batch * c.k_stride[0] + head * c.k_stride[1]; }
    __device__ const E* v() const { return static_cast<const E*>(c.v) + batch * c.v_stride[0] + head * c.v_stride[1]; }
    __device__ E* o(int32_t row) const {
        return static_cast<E*>(c.o) + batch * c.o_stride[0] +
               (int64_t{head} * c.group + row % c.group) * c.o_stride[1] + row / c.group * c.o_stride[2];
    }
    // Number of keys that a row sees: the first ones.
    __device__ int32_t limit(int32_t row) const { return c.causal ? max(0, c.M - c.N + row / c.group + 1) : c.M; }

    __device__ int64_t partial_row(int32_t split, int32_t row) const {
        return (int64_t{split} * c.lines + line) * c.rows + row;
    }

    // lse2: the log-sum-exp in units of log 2.
    __device__ void store_lse(int32_t split, int32_t row, float lse2) const {
        if (c.splits > 1) c.partial_lse[partial_row(split, row)] = lse2;
        else if (c.lse)
            c.lse[((int64_t{batch} * c.heads + head) * c.group + row % c.group) * c.N + row / c.group] = lse2 * ln2;
    }
};

// The kernel that merges splits may be launched while this one runs; it waits for its end before it reads.
__device__ __forceinline__ void let_merging_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// 1 / l and the log-sum-exp m + log2 l of a row, 0 and -Inf where it saw nothing.
__device__ __forceinline__ float finish(float m, float l, float& lse2) {
    lse2 = l > 0 ? m + log2f(l) : l == 0 ? minus_infinity : l;  // a NaN stays
    return l == 0 ? 0.0f : 1.0f / l;
}

// What is subtracted from the scores times the scale, where m is the largest score: rounded, never part of a fused
// multiply-add, so that as long as m stays, what was summed before is multiplied by 1 and not by 1 + rounding. -Inf
// must not be subtracted from itself.
__device__ __forceinline__ float shift_of(float m, float scale) {
    return m == minus_infinity ? 0.0f : __fmul_rn(m, scale);
}

}  // namespace causeway::gpu::softmax
