// What all roles of a block of la_output know.
#pragma once

#include "gpu/exact/lightning/layout.cuh"

namespace causeway::gpu::la {

// C: blocks of the cluster, which share a split; this is block `rank` of them.
template <int R, int C, bool bidirectional>
struct OutputBlock {
    using Shared = OutputShared<R>;
    using Stage = OutputStage<R>;
    using Stages = StagePipeline<Shared>;
    using Scores = ScorePipeline<Shared>;

    const Maps<bidirectional>& maps;
    const Work& work;
    uint32_t base;
    Stages stages;
    Scores scores;
    uint32_t split, rank;
    int warp, lane;  // of the warpgroup

    // Calls f(piece, chunks to replay before it) for every piece of the split.
    template <class F>
    __device__ __forceinline__ void each_piece(const F& f) const {
        la::each_piece<bidirectional>(work, work.bound[split], work.bound[split + 1], f);
    }
    // The word that says whether the values that a score tile will be multiplied by have NaN or Inf.
    __device__ __forceinline__ uint32_t nonfinite_at(const typename Scores::State& position) const {
        return base + offsetof(Shared, nonfinite) + 4 * position.stage;
    }
    // This warp needs the stage no more: every block that may write into it is told.
    template <class Pipe>
    __device__ __forceinline__ void release(const Pipe& pipe, const typename Pipe::State& position) const {
        if (C == 1 && lane == 0) ptx::mbarrier_arrive(pipe.empty(position));
        if (C > 1 && lane < C) ptx::mbarrier_arrive_remote(pipe.empty(position), lane);
    }
};

}  // namespace causeway::gpu::la
