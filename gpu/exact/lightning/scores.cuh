// The score warpgroup of la_output: P = Q Kᵀ ⊙ Λ of every chunk, as 16-bit numbers in shared memory.
#pragma once

#include "gpu/exact/lightning/block.cuh"
#include "gpu/exact/lightning/mask.cuh"
#include "gpu/kit/barriers.hpp"
#include "gpu/kit/pack.cuh"

namespace causeway::gpu::la {

// The half at `mine` is in this block's tile; with a pair of blocks the other one gets it too, and both have the whole.
template <int C>
__device__ __forceinline__ void send_scores(uint32_t mine, uint32_t bytes, uint32_t bar, uint32_t rank) {
    if constexpr (C > 1) {
        ptx::mbarrier_arrive_expect_tx(bar, bytes);
        ptx::bulk_copy_remote(mine, bytes, bar, rank ^ 1);
    } else {
        ptx::mbarrier_arrive(bar);
    }
}

// Q Kᵀ of 64 queries and the keys from `first_key` on, as many as the accumulators hold, and waits for it.
template <class E, int R, int count>
__device__ __forceinline__ void multiply_queries_keys(float (&acc)[count], uint32_t q_tile, uint32_t k_tile,
                                                      int first_key) {
    const ptx::TileDescriptor q(q_tile), k(k_tile + first_key * 128);
    ptx::wgmma_fence();
#pragma unroll
    for (int ks = 0; ks < R / 16; ++ks) {
        const uint32_t off = ks / 4 * tile_bytes + ks % 4 * 32;
        ptx::wgmma_ss<E, 0, 0>(acc, q + off, k + off, ks > 0);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    ptx::hold(acc);
}

// The masked scores of 64 queries and `keys` keys to the score tile, whose half of 32 keys begins at `to`.
template <class E, int keys>
__device__ __forceinline__ void write_scores(const float (&acc)[keys / 2], const Mask<keys>& mask, uint32_t to,
                                             int warp, int lane) {
#pragma unroll
    for (int j = 0; j < keys / 16; ++j) {
        uint32_t x[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int n = 8 * j + 2 * i;
            x[i] = pack(E{}, acc[n] * mask.weight[n], acc[n + 1] * mask.weight[n + 1]) & mask.seen[n / 2];
        }
        ptx::stmatrix_x4(to + j / 2 * half_tile + score_at(16 * warp + lane % 16, 2 * (j % 2) + lane / 16), x[0], x[1],
                         x[2], x[3]);
    }
}

// Each block of a pair makes the scores of half the keys, and sends them to the other.
template <class E, int R, int C, bool bidirectional>
__device__ __forceinline__ void score_role(const OutputBlock<R, C, bidirectional>& block) {
    using Block = OutputBlock<R, C, bidirectional>;
    using Stage = typename Block::Stage;
    constexpr int keys = 64 / C;
    const int warp = block.warp, lane = block.lane, half = C > 1 ? static_cast<int>(block.rank) : 0;
    typename Block::Stages::State in;
    typename Block::Scores::State out;
    Mask<keys> mask;
    block.each_piece([&](const Piece& p, uint32_t back) {
        mask.set(p, 32 * half, warp, lane);
        for (uint32_t i = back; i > 0; --i) {
            block.stages.consumer_wait(in);
            block.release(block.stages, in);
            in.advance();
        }
        for (uint32_t c = p.first; c < p.last; ++c) {
            const uint32_t at = block.stages.at(in);
            float acc[keys / 2];
            block.stages.consumer_wait(in);
            multiply_queries_keys<E, R>(acc, at + offsetof(Stage, q), at + offsetof(Stage, k), 32 * half);
            block.release(block.stages, in);
            block.scores.producer_acquire(out);
            const uint32_t mine = block.scores.at(out) + half * half_tile;
            write_scores<E>(acc, mask, mine, warp, lane);
            ptx::fence_proxy_async();
            ptx::named_barrier_sync(barriers::lightning_scores, barriers::warpgroup);
            if (warp == 0 && lane == 0) send_scores<C>(mine, half_tile, block.scores.full(out), block.rank);
            out.advance();
            in.advance();
        }
    });
}

}  // namespace causeway::gpu::la
