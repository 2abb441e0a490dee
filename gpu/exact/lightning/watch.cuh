// The watch of la_output: one warp that looks for NaN and Inf among the values of every chunk and tells the output
// warpgroup, with the scores, whether there are any.
#pragma once

#include "gpu/exact/lightning/block.cuh"
#include "gpu/exact/lightning/recompute.cuh"

namespace causeway::gpu::la {

// Whether the tile of values has NaN or Inf; the same in all lanes.
template <class E>
__device__ __forceinline__ bool tile_has_nonfinite(uint32_t v_tile, int lane) {
    bool found = false;
#pragma unroll 4
    for (uint32_t i = 0; i < tile_bytes; i += 512) {
        const float4 x = ptx::ld_shared_f32x4(v_tile + lane * 16 + i);
        found |=
            has_nonfinite<E>({__float_as_uint(x.x), __float_as_uint(x.y), __float_as_uint(x.z), __float_as_uint(x.w)});
    }
    return __any_sync(~0u, found);
}

template <class E, int R, int C, bool bidirectional>
__device__ __forceinline__ void watch_role(const OutputBlock<R, C, bidirectional>& block) {
    using Block = OutputBlock<R, C, bidirectional>;
    typename Block::Stages::State in;
    typename Block::Scores::State out;
    const int lane = block.lane;
    block.each_piece([&](const Piece& p, uint32_t back) {
        for (uint32_t i = back; i > 0; --i) {
            block.stages.consumer_wait(in);
            if (lane == 0) ptx::mbarrier_arrive(block.stages.empty(in));
            in.advance();
        }
        for (uint32_t c = p.first; c < p.last; ++c) {
            block.stages.consumer_wait(in);
            const bool found = tile_has_nonfinite<E>(block.stages.at(in) + offsetof(typename Block::Stage, v), lane);
            // An arrival does not wait for loads on their way, and TMA would overwrite what they read, so which lane
            // arrives must depend on what was read. Whatever was found, exactly one arrives.
            if (lane == (found ? 1 : 0)) ptx::mbarrier_arrive(block.stages.empty(in));
            block.scores.producer_acquire(out);
            if (lane == 0) {
                ptx::st_shared(block.nonfinite_at(out), uint32_t{found});
                ptx::mbarrier_arrive(block.scores.full(out));
            }
            out.advance();
            in.advance();
        }
    });
}

}  // namespace causeway::gpu::la
