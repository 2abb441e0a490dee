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
    // The maps S ↦ A S + B of the parts of all splits but the last (plan.hpp, Scratch); B null: there is one split.
    float *A, *B;
    int* transfers;  // [state_heads], which heads take them; null: all
    bool making;     // this launch makes A and B, and no outputs
    uint32_t finer, columns, rows, identity_blocks, state_heads;

    __device__ __forceinline__ uint32_t parts() const { return (splits - 1) * finer; }
    // The first chunk of part i; that of part parts() is the end of the last part.
    __device__ __forceinline__ uint32_t part_bound(uint32_t i) const {
        const uint32_t split = i / finer, first = bound[split];
        return i == parts() ? bound[split] : first + (bound[split + 1] - first) * (i % finer) / finer;
    }
    // B of a part, and after the scan the state behind it.
    __device__ __forceinline__ float* B_of(uint32_t part, uint32_t kv_bh) const {
        return B + (int64_t{part} * state_heads + kv_bh) * dk * dv;
    }
    __device__ __forceinline__ float* A_of(uint32_t part, uint32_t kv_bh) const {
        return A + (int64_t{part - 1} * state_heads + kv_bh) * dk * static_cast<int>(rows);
    }
};

// A walk of one thread block over the chunks [start, last) of one head in one batch, for up to 128 columns of the
// state; it makes the outputs of [first, last) for a head of q. Either a split, or a part whose map is made: then
// first = last, and the columns are those of B or, with the identity to start from and no values, those of A.
struct Split {
    // index: of the split or part; h: the head of q; kv_h: that of k, v, g, β and the state, kv_bh: the same counted
    // through all batches.
    uint32_t column_block, index, b, h, kv_h, kv_bh;
    uint32_t start, first, last;
    const float* g;  // of the head, [N]; null: no gate

    explicit __device__ __forceinline__ Split(const Work& work) {
        const uint32_t kv_heads = work.heads / work.group, walks = work.making ? work.parts() : work.splits,
                       wide = work.column_blocks + (work.making ? work.identity_blocks : 0);
        if (work.making) {
            // Blocks of the identity's columns come behind the last columns of v, where TMA finds zeros.
            column_block = blockIdx.x % wide, index = blockIdx.x / wide % walks, kv_bh = blockIdx.x / wide / walks;
            b = kv_bh / kv_heads, kv_h = kv_bh - b * kv_heads, h = kv_h * work.group;
            start = work.part_bound(index), first = last = work.part_bound(index + 1);
        } else {
            index = blockIdx.x % walks, column_block = blockIdx.x / walks % wide;
            const uint32_t bh = blockIdx.x / walks / wide;
            b = bh / work.heads, h = bh - b * work.heads, kv_h = h / work.group, kv_bh = b * kv_heads + kv_h;
            start = first = work.bound[index], last = work.bound[index + 1];
        }
        g = work.g ? work.g + kv_bh * work.N : nullptr;
    }

    // Whether the columns are those of A.
    __device__ __forceinline__ bool identity(const Work& work) const { return column_block >= work.column_blocks; }
    // Whether the head's splits start from the states that the maps give; else from zeros, as far back as gates let
    // something through.
    __device__ __forceinline__ bool takes_maps(const Work& work) const {
        return !work.transfers || work.transfers[kv_bh];
    }
    // The state before `start`, [dk, dv]; null: zeros, or the identity.
    __device__ __forceinline__ const float* from(const Work& work) const {
        if (start == 0) return work.initial && !identity(work) ? work.initial + state_at(work) : nullptr;
        return work.making || start < first ? nullptr : work.B_of(index * work.finer - 1, kv_bh);
    }
    // Where the state after `last` goes, [dk, width()]; null: nowhere.
    __device__ __forceinline__ float* to(const Work& work) const {
        if (!work.making)
            return last == work.chunks && work.final && h % work.group == 0 ? work.final + state_at(work) : nullptr;
        if (!identity(work)) return work.B_of(index, kv_bh);
        return index > 0 ? work.A_of(index, kv_bh) : nullptr;
    }
    __device__ __forceinline__ int width(const Work& work) const {
        return identity(work) ? static_cast<int>(work.rows) : work.dv;
    }
    // The first of the block's columns there.
    __device__ __forceinline__ int first_column(const Work& work) const {
        return static_cast<int>((column_block - (identity(work) ? work.column_blocks : 0)) * work.columns);
    }

private:
    __device__ __forceinline__ int64_t state_at(const Work& work) const { return int64_t{kv_bh} * work.dk * work.dv; }
};

}  // namespace causeway::gpu::gated_delta
