// The score warpgroup of la_bf16x3: converts q and makes P = Q Kᵀ ⊙ Λ of every chunk, as hi and lo.
#pragma once

#include "gpu/exact/lightning/bf16x3/convert.cuh"
#include "gpu/exact/lightning/bf16x3/decay.cuh"
#include "gpu/kit/barriers.hpp"

namespace causeway::gpu::la {

// Q Kᵀ, and waits for it.
template <int R>
__device__ __forceinline__ void multiply_hi_lo(float (&acc)[32], uint32_t q_tile, uint32_t k_tile) {
    using E = __nv_bfloat16;
    const ptx::TileDescriptor q(q_tile), k(k_tile);
    ptx::wgmma_fence();
#pragma unroll
    for (int ks = 0; ks < R / 16; ++ks) {
        const uint32_t at = ks / 4 * sizeof(TilePair) + ks % 4 * 32;
        ptx::wgmma_ss<E, 0, 0>(acc, q + (at + tile_bytes), k + at, ks > 0);
        ptx::wgmma_ss<E, 0, 0>(acc, q + at, k + (at + tile_bytes), 1);
        ptx::wgmma_ss<E, 0, 0>(acc, q + at, k + at, 1);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    ptx::hold(acc);
}

// The masked scores to a score tile.
__device__ __forceinline__ void write_scores_hi_lo(const float (&acc)[32], const Bf16x3Mask& mask, bool reversed,
                                                   uint32_t tile, int warp, int lane) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        uint32_t hi[4], lo[4];
        mask.apply(reversed ? j - warp : warp - j, acc + 8 * j, hi, lo);
        __syncwarp();
        const uint32_t to = tile + j / 2 * half_pair + score_at(16 * warp + lane % 16, 2 * (j % 2) + lane / 16);
        ptx::stmatrix_x4(to, hi[0], hi[1], hi[2], hi[3]);
        ptx::stmatrix_x4(to + half_tile, lo[0], lo[1], lo[2], lo[3]);
    }
}

template <int R, int D, bool bidirectional>
__device__ __forceinline__ void bf16x3_score_role(const Bf16x3Block<R, D, false, bidirectional>& block) {
    using Block = Bf16x3Block<R, D, false, bidirectional>;
    using Shared = typename Block::Shared;
    const int warp = block.warp, lane = block.lane;
    const auto q = block.q();
    const auto k = block.k();
    const auto scores = block.scores();
    PipelineState<Shared::stages> q_at, k_at;
    PipelineState<Shared::score_tiles> out;
    Bf16x3Mask mask;
    block.each_piece([&](const Piece& p, uint32_t back, uint32_t) {
#pragma unroll 1
        for (; back > 0; --back) {
            k.wait_ready(k_at);
            k.consumer_release(k_at, lane);
            k_at.advance();
        }
        mask.set(p, lane);
#pragma unroll 1
        for (uint32_t c = p.first; c < p.last; ++c) {
            float acc[32];
            convert_share<R, Block::q_converters, 2>(q, q_at, warp, lane);
            q.wait_ready(q_at);
            k.wait_ready(k_at);
            multiply_hi_lo<R>(acc, q.at(q_at), k.at(k_at));
            q.consumer_release(q_at, lane);
            k.consumer_release(k_at, lane);
            q_at.advance();
            k_at.advance();
            scores.producer_acquire(out);
            write_scores_hi_lo(acc, mask, p.reversed, scores.at(out), warp, lane);
            ptx::fence_proxy_async();
            ptx::named_barrier_sync(barriers::bf16x3_scores, barriers::warpgroup);
            if (warp == 0 && lane == 0) ptx::mbarrier_arrive(scores.full(out));
            out.advance();
        }
    });
}

}  // namespace causeway::gpu::la
