// What all roles of a block of la_bf16x3 know.
#pragma once

#include "gpu/exact/lightning/bf16x3/layout.cuh"

namespace causeway::gpu::la {

// The split with chunk `pos` of those that are followed.
__device__ __forceinline__ uint32_t split_followed(const Bf16x3Work& w, uint32_t pos) {
    uint32_t b = 0;
    for (uint32_t n = w.splits; n > 1;) {
        const uint32_t half = n / 2;
        if (w.followed[b + half] <= pos) b += half, n -= half;
        else n = half;
    }
    return b;
}

template <int R, int D, bool stores_states, bool bidirectional>
struct Bf16x3Block {
    using Shared = Bf16x3Shared<R, D, stores_states>;
    static constexpr int groups = Shared::groups, threads = 128 * (2 + groups);
    // Warps that convert q and k. Where there are no scores to make, warpgroup 1 converts k too.
    static constexpr int q_converters = 4, k_converters = stores_states ? 7 : 3;

    const Maps<bidirectional>& maps;
    const Bf16x3Work& work;
    uint32_t base;
    int warp, lane;  // of the warpgroup

    __device__ __forceinline__ KPipeline<Shared> k() const { return {{base}}; }
    __device__ __forceinline__ auto q() const { return QPipeline<Shared>{{base}}; }
    __device__ __forceinline__ auto scores() const { return Bf16x3ScorePipeline<Shared>{base}; }
    __device__ __forceinline__ VPipeline<Shared> v(int group) const {
        return {base, group * static_cast<uint32_t>(sizeof(Shared::v[0])),
                group * static_cast<uint32_t>(sizeof(Shared::v_barriers[0]))};
    }

    // Calls f(piece, chunks to replay before it, split) for every piece of the split, or of the task: that has no
    // chunks of its own, and stores a state for each split that it has a part of.
    template <class F>
    __device__ __forceinline__ void each_piece(const F& f) const {
        if constexpr (stores_states) {
            uint32_t pos = blockIdx.x * work.task;
            const uint32_t end = min(pos + work.task, work.followed[work.splits]);
            for (uint32_t split = split_followed(work, pos); pos < end; ++split) {
                const uint32_t to = min(end, work.followed[split + 1]);
                if (to <= pos) continue;
                const uint32_t before = work.bound[split + 1] - work.followed[split + 1];
                Piece p = piece_at<bidirectional>(work, before + pos, before + to);
                p.first = p.last;
                f(p, to - pos, split);
                pos = to;
            }
        } else {
            const uint32_t split = work.order[blockIdx.x];
            la::each_piece<bidirectional>(work, work.bound[split], work.bound[split + 1],
                                          [&](const Piece& p, uint32_t back) { f(p, back, split); });
        }
    }
};

}  // namespace causeway::gpu::la
