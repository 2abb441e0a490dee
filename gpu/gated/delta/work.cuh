// What a thread block of delta_rule is told and which share of the work it has.
#pragma once

#include <cuda.h>

#include "gpu/gated/delta/plan.hpp"

namespace causeway::gpu::gated_delta {

struct Maps {
    CUtensorMap q, k, v, o;
};

struct Work {
    uint32_t chunks, splits, column_blocks, heads, group;  // heads: of q; group of them share a head of k and v
    int64_t N;
    int dk, dv;
    float scale;
    const float *g, *beta;  // [B, heads / group, N]; null: no gate
    const float* initial;   // [B, heads / group, dk, dv]; null: zeros
    float* final;           // the same shape; null: dropped
    uint32_t bound[max_splits + 1];
    const void *q, *k, *v, *o;  // as the maps have them, for walk_again()
    Strides q_stride, k_stride, v_stride, o_stride;
};

// One split of one head of q in one batch, and up to 128 columns of v. The block walks over the chunks [start, last)
// and makes the outputs of [first, last).
struct Split {
    // h: the head of q; kv_h: that of k, v, g, β and the state, kv_bh: the same counted through all batches.
    uint32_t column_block, b, h, kv_h, kv_bh;
    uint32_t start, first, last;
    const float* g;  // of the head, [N]; null: no gate

    explicit __device__ __forceinline__ Split(const Work& work) {
        const uint32_t split = blockIdx.x % work.splits, row = blockIdx.x / work.splits;
        column_block = row % work.column_blocks;
        const uint32_t bh = row / work.column_blocks;
        b = bh / work.heads, h = bh - b * work.heads, kv_h = h / work.group;
        kv_bh = b * (work.heads / work.group) + kv_h;
        first = work.bound[split], last = work.bound[split + 1];
        start = work.g ? first : 0;  // without gates from the first token; with gates find_start() moves it back
        g = work.g ? work.g + kv_bh * work.N : nullptr;
    }
};

}  // namespace causeway::gpu::gated_delta
