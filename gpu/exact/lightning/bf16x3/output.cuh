// The state warpgroups of la_bf16x3: each owns 64 columns of v, with the state Sᵀ in registers, and makes
//
//   Oᵀ = Sᵀ Qᵀ diag(γ^(i+1)) + Vᵀ Pᵀ,   Sᵀ ← γ^64 Sᵀ + V'ᵀ K,   V' = diag(γ^(63-j)) V
//
// or, with `stores_states`, only the second, and stores the state at the end. Values become hi and lo on their way into
// registers, and outputs leave from the tile that held the values.
#pragma once

#include "gpu/exact/lightning/bf16x3/block.cuh"
#include "gpu/exact/lightning/bf16x3/decay.cuh"
#include "gpu/exact/lightning/bf16x3/elements.cuh"
#include "gpu/exact/lightning/recompute.cuh"
#include "gpu/exact/lightning/state.cuh"
#include "gpu/kit/barriers.hpp"

namespace causeway::gpu::la {

// U = V'ᵀ K for 64 columns of K, asynchronously. The tensor cores cut off what they add to an accumulator, so the
// running state is summed outside.
__device__ __forceinline__ void queue_outer_hi_lo(float (&u)[32], const uint32_t (&hi)[16], const uint32_t (&lo)[16],
                                                  uint32_t k_tile) {
    const ptx::TileDescriptor k(k_tile);
    ptx::wgmma_fence();
#pragma unroll
    for (int ks = 0; ks < 4; ++ks) wgmma_hi_lo<1>(u, hi, lo, 4 * ks, k, ks * 16 * 128, tile_bytes, ks > 0);
    ptx::wgmma_commit();
}

template <int R, int D, bool stores_states, bool bidirectional>
struct Bf16x3Role {
    using E = __nv_bfloat16;
    using Block = Bf16x3Block<R, D, stores_states, bidirectional>;
    using Shared = typename Block::Shared;
    static constexpr int groups = Block::groups;

    const Block& block;
    const int group, warp, lane, thread;  // which of the state warpgroups; of the warpgroup
    const KPipeline<Shared> k;
    const VPipeline<Shared> v;
    PipelineState<Shared::stages> q_at, k_at, v_at;
    PipelineState<stores_states ? 1 : Shared::score_tiles> scores_at;
    State<E, R> state;
    Bf16x3Decay decay;
    const Elements elements;
    float u[R / 64][32];   // of an update under way
    uint32_t storing = 0;  // the empty barrier of the values' tile from which outputs are being stored; 0: none

    __device__ __forceinline__ Bf16x3Role(const Block& b, int g)
        : block(b),
          group(g),
          warp(b.warp),
          lane(b.lane),
          thread(threadIdx.x % 128),
          k(b.k()),
          v(b.v(g)),
          elements(b.warp, b.lane) {}

    __device__ __forceinline__ bool leader() const { return thread == 0; }
    __device__ __forceinline__ void sync() const {
        ptx::named_barrier_sync(barriers::bf16x3_values + group, barriers::warpgroup);
    }

    // The tile from which outputs have been stored is free, about half a chunk later.
    __device__ __forceinline__ void release_stored() {
        if (leader() && storing) {
            ptx::tma_store_wait_read<0>();
            ptx::mbarrier_arrive(storing);
        }
        storing = 0;
    }
    // S ← keep S + U, once the products are there.
    __device__ __forceinline__ void add_update(float keep) {
        ptx::wgmma_wait<0>();
#pragma unroll
        for (int i = 0; i < R / 64; ++i) ptx::hold(u[i]);
        k.consumer_release(k_at, lane);
        k_at.advance();
#pragma unroll
        for (int i = 0; i < R / 2; ++i) state.s[i] = fmaf(state.s[i], keep, u[i / 32][i % 32]);
    }
    // Adds `back` earlier chunks, the latest first.
    __device__ __forceinline__ void replay(const Piece& p, uint32_t back) {
        float f = 1.0f;
#pragma unroll 1
        for (; back > 0; --back) {
            float values[32];
            uint32_t hi[16], lo[16];
            decay.renew();
            v.consumer_wait(v_at);
            elements.load(v.at(v_at), values);
            sync();
            if (leader()) ptx::mbarrier_arrive(v.empty(v_at));
            v_at.advance();
            decay.weigh_values(p, f, values, hi, lo);
            k.wait_ready(k_at);
#pragma unroll
            for (int i = 0; i < R / 64; ++i) queue_outer_hi_lo(u[i], hi, lo, k.at(k_at) + i * sizeof(TilePair));
            add_update(1.0f);
            f *= decay.chunk_step;
        }
    }
    // o = Sᵀ Qᵀ, asynchronously: the state becomes hi and lo by parts, while the tensor cores are at work on the part
    // before.
    __device__ __forceinline__ void queue_from_state(float (&o)[32], uint32_t q_tile) const {
        const ptx::TileDescriptor q(q_tile);
#pragma unroll
        for (int part = 0; part < R / 32; ++part) {
            uint32_t hi[8], lo[8];
#pragma unroll
            for (int i = 0; i < 8; ++i)
                to_hi_lo(state.s[16 * part + 2 * i], state.s[16 * part + 2 * i + 1], hi[i], lo[i]);
            ptx::wgmma_fence();
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const uint32_t at = part / 2 * sizeof(TilePair) + (2 * (part % 2) + i) * 32;
                wgmma_hi_lo<0>(o, hi, lo, 4 * i, q, at, tile_bytes, part + i > 0);
            }
            ptx::wgmma_commit();
            if (part > 0) ptx::wgmma_wait<1>();
        }
    }
    // o += Vᵀ Pᵀ, asynchronously.
    __device__ __forceinline__ void queue_scores(float (&o)[32], const uint32_t (&hi)[16], const uint32_t (&lo)[16],
                                                 uint32_t score_tile) const {
        const ptx::NarrowTileDescriptor scores(score_tile);
        ptx::hold(o);
        ptx::wgmma_fence();
#pragma unroll
        for (int ks = 0; ks < 4; ++ks)
            wgmma_hi_lo<0>(o, hi, lo, 4 * ks, scores, ks / 2 * half_pair + ks % 2 * 32, half_tile, 1);
        ptx::wgmma_commit();
    }
    // Outputs of chunk c to memory, from the tile that held the values.
    __device__ __forceinline__ void store_outputs(const Piece& p, uint32_t c, const float (&o)[32]) const {
        elements.store(v.at(v_at), o);
        ptx::fence_proxy_async();
        sync();
        if (!leader()) return;
        for (int i = 0; i < 2; ++i) {
            ptx::tma_store(block.maps.of[p.problem].o, v.at(v_at) + i * tile_bytes, group * 64 + 32 * i, p.token(c),
                           p.h, p.b, output_policy);
        }
        ptx::tma_store_commit();
    }

    __device__ __forceinline__ void run_chunk(const Piece& p, uint32_t c, Bf16x3Recompute& recompute) {
        const Work& work = block.work;
        const auto q = block.q();
        const auto scores = block.scores();
        if (!bidirectional && work.last && c + 1 == work.chunks)
            state.store(work.last, size_t{p.bh} * groups + group, thread);
        decay.renew();
        float o[32], values[32];
        uint32_t hi[16], lo[16];
        q.wait_ready(q_at);
        queue_from_state(o, q.at(q_at));
        release_stored();
        v.consumer_wait(v_at);
        elements.load(v.at(v_at), values);
#pragma unroll
        for (int i = 0; i < 16; ++i) to_hi_lo(values[2 * i], values[2 * i + 1], hi[i], lo[i]);
        const bool nonfinite = __any_sync(~0u, has_nonfinite<E>(hi));
        ptx::wgmma_wait<0>();
        ptx::hold(o);
        q.consumer_release(q_at, lane);
        q_at.advance();
        decay.weigh_outputs(p, o);
        if (nonfinite) recompute.keep(o);

        scores.consumer_wait(scores_at);
        queue_scores(o, hi, lo, scores.at(scores_at));
        uint32_t weighed_hi[16], weighed_lo[16];
        decay.weigh_values(p, 1.0f, values, weighed_hi, weighed_lo);
        k.wait_ready(k_at);
        ptx::wgmma_wait<0>();
        ptx::hold(o);
        if (nonfinite) recompute.run(p, o, v.at(v_at), scores.at(scores_at), warp, lane);
        scores.consumer_release(scores_at, lane);
        scores_at.advance();

        queue_outer_hi_lo(u[0], weighed_hi, weighed_lo, k.at(k_at));
        store_outputs(p, c, o);  // while the tensor cores are at work
#pragma unroll
        for (int i = 1; i < R / 64; ++i)
            queue_outer_hi_lo(u[i], weighed_hi, weighed_lo, k.at(k_at) + i * sizeof(TilePair));
        storing = v.empty(v_at);
        v_at.advance();
        add_update(decay.chunk_step);
    }
    __device__ __forceinline__ void run_piece(const Piece& p, uint32_t back, uint32_t split) {
        const Bf16x3Work& work = block.work;
        decay.set(p, lane);
        state.clear();
        replay(p, back);
        if constexpr (stores_states) {
            state.store(work.states, size_t{split + blockIdx.x} * groups + group, thread);
        } else {
            if (p.first > 0 && p.head.reach == from_memory) state.load_stored(work, p, split, groups, group, thread);
            if (!bidirectional && work.initial) state.add_initial(work, p, group, warp, lane);
            Bf16x3Recompute recompute;
#pragma unroll 1
            for (uint32_t c = p.first; c < p.last; ++c) run_chunk(p, c, recompute);
            release_stored();
        }
    }
    __device__ __forceinline__ void run() {
        block.each_piece([&](const Piece& p, uint32_t back, uint32_t split) { run_piece(p, back, split); });
    }
};

}  // namespace causeway::gpu::la
