// The output warpgroup of la_output. It owns 64 columns of v, with the state Sᵀ in registers:
//
//   Oᵀ = Sᵀ Qᵀ diag(γ^(i+1)) + Vᵀ Pᵀ,   Sᵀ ← γ^64 Sᵀ + V'ᵀ K,   V' = diag(γ^(63-j)) V
//
// Each turn of the loop over chunks queues three products: what the state gives to chunk c, what the scores add to
// chunk c - 1, and the update of the state by chunk c; while they run, chunk c - 2 is stored.
#pragma once

#include "gpu/exact/lightning/block.cuh"
#include "gpu/exact/lightning/mask.cuh"
#include "gpu/exact/lightning/recompute.cuh"
#include "gpu/exact/lightning/state.cuh"
#include "gpu/kit/barriers.hpp"

namespace causeway::gpu::la {

template <class E, int R, int C, bool bidirectional>
struct OutputRole {
    using Block = OutputBlock<R, C, bidirectional>;
    using Stage = typename Block::Stage;
    using Shared = typename Block::Shared;
    using StageState = typename Block::Stages::State;

    const Block& block;
    const int warp, lane, thread;  // of the warpgroup
    StageState stage;              // of the chunk whose update is queued
    typename Block::Scores::State in;
    State<E, R> state;
    OutputDecay decay;
    float o[32], from_state[32];
    uint32_t packed[16];  // outputs on their way to shared memory
    uint32_t buffer = 0;  // of the output tiles
    bool nonfinite;       // the values whose scores are being queued have NaN or Inf

    explicit __device__ __forceinline__ OutputRole(const Block& b)
        : block(b), warp(b.warp), lane(b.lane), thread(threadIdx.x % 128) {}

    __device__ __forceinline__ bool leader() const { return thread == 0; }

    // from_state = Sᵀ Qᵀ, asynchronously.
    __device__ __forceinline__ void queue_from_state() {
        uint32_t sa[R / 4];
#pragma unroll
        for (int i = 0; i < R / 4; ++i) sa[i] = pack(E{}, state.s[2 * i], state.s[2 * i + 1]);
        block.stages.consumer_wait(stage);
        const ptx::TileDescriptor q(block.stages.at(stage) + offsetof(Stage, q));
        ptx::wgmma_fence();
#pragma unroll
        for (int ks = 0; ks < R / 16; ++ks) {
            ptx::wgmma_rs<E, 0>(from_state, sa[4 * ks], sa[4 * ks + 1], sa[4 * ks + 2], sa[4 * ks + 3],
                                q + (ks / 4 * tile_bytes + ks % 4 * 32), ks > 0);
        }
        ptx::wgmma_commit();
    }
    // o += Vᵀ Pᵀ of the chunk in stage `before`, asynchronously.
    __device__ __forceinline__ void queue_scores(const StageState& before) {
        block.scores.consumer_wait(in);
        // Read by the one lane that will tell this block's score warpgroup that the word may be written again.
        nonfinite =
            __any_sync(~0u, ptx::ld_shared_b32_if(lane == static_cast<int>(block.rank), block.nonfinite_at(in)));
        if (nonfinite) recompute().keep(o);
        const ptx::TileDescriptor v(block.stages.at(before) + offsetof(Stage, v));
        const ptx::NarrowTileDescriptor scores(block.scores.at(in));
        ptx::hold(o);
        ptx::wgmma_fence();
#pragma unroll
        for (int ks = 0; ks < 4; ++ks)
            ptx::wgmma_ss<E, 1, 0>(o, v + ks * 16 * 128, scores + (ks / 2 * half_tile + ks % 2 * 32), 1);
        ptx::wgmma_commit();
    }
    // Sᵀ ← γ^64 Sᵀ + V'ᵀ K, asynchronously.
    __device__ __forceinline__ void queue_update() {
        const uint32_t at = block.stages.at(stage);
        uint32_t va[16];
        state.load_v(va, at + offsetof(Stage, v), warp, lane);
#pragma unroll
        for (int i = 0; i < R / 2; ++i) state.s[i] *= state.step;
        state.weigh_v(va, 1.0f);
        state.add_outer(va, at + offsetof(Stage, k));
    }
    __device__ __forceinline__ void pack_outputs() {
#pragma unroll
        for (int i = 0; i < 16; ++i) packed[i] = pack(E{}, o[2 * i], o[2 * i + 1]);
    }
    // The packed outputs, those of chunk c, to memory, through the output tile that is free.
    __device__ __forceinline__ void store_outputs(const Piece& p, uint32_t c) {
        const uint32_t out = block.base + offsetof(Shared, outputs) + buffer * tile_bytes,
                       put = transposed_rows(warp, lane);
        if (leader()) ptx::tma_store_wait_read<1>();  // the store before the last has left this tile
        ptx::named_barrier_sync(barriers::lightning_outputs, barriers::warpgroup);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            ptx::stmatrix_x4_trans(out + put + j * 16 * 128, packed[4 * j], packed[4 * j + 1], packed[4 * j + 2],
                                   packed[4 * j + 3]);
        }
        ptx::fence_proxy_async();
        ptx::named_barrier_sync(barriers::lightning_outputs, barriers::warpgroup);
        if (leader()) {
            ptx::tma_store(block.maps.of[p.problem].o, out, block.rank * 64, p.token(c), p.h, p.b, output_policy);
            ptx::tma_store_commit();
        }
        buffer ^= 1;
    }
    __device__ __forceinline__ Recompute recompute() const {
        return {block.base + static_cast<uint32_t>(offsetof(Shared, kept)), thread};
    }
    // The outputs of the chunk in stage `before` that are not finite, from the terms that count.
    __device__ __forceinline__ void recompute_outputs(const Piece& p, const StageState& before) {
        const uint32_t v_tile = block.stages.at(before) + offsetof(Stage, v), scores = block.scores.at(in);
        const auto value = [&](int j, int column) { return tile_element<E>(v_tile, j, column); };
        const auto score = [&](int i, int j) {
            const float2 pair =
                unpack(E{}, ptx::ld_shared_b32(scores + j / 32 * half_tile + score_at(i, j % 32 / 8) + j % 8 / 2 * 4));
            return j % 2 ? pair.y : pair.x;
        };
        recompute().run(p, o, value, score);
    }
    // The outputs of the chunk in stage `before` are complete, up to those to be recomputed.
    __device__ __forceinline__ void finish_chunk(const Piece& p, const StageState& before) {
        if (nonfinite) recompute_outputs(p, before);
        block.release(block.stages, before);
        block.release(block.scores, in);
        in.advance();
    }
    // The state before the last chunk, where la_finish will want it.
    __device__ __forceinline__ void store_last_state(const Piece& p, uint32_t c) const {
        const Work& work = block.work;
        if (!bidirectional && work.last && c + 1 == work.chunks)
            state.store(work.last, size_t{p.bh} * C + block.rank, thread);
    }
    // Where the state behind a split lies until the next one takes it, in this block's columns.
    __device__ __forceinline__ uint32_t handed_at(uint32_t split) const { return split * C + block.rank; }
    __device__ __forceinline__ void hand_on() const {
        const Work& work = block.work;
        state.store(work.states, handed_at(block.split), thread);
        ptx::named_barrier_sync(barriers::lightning_outputs, barriers::warpgroup);
        if (leader()) ptx::store_release(work.handed + handed_at(block.split), 1u);
    }
    // The split before this one hands it on as the first thing it does, and waits for nothing before. Thread blocks are
    // started in the order of their numbers, so that it has begun.
    __device__ __forceinline__ void take_handed() {
        const Work& work = block.work;
        const uint32_t at = handed_at(block.split - 1);
        if (leader()) {
            while (ptx::load_acquire(work.handed + at) == 0) {}
        }
        ptx::named_barrier_sync(barriers::lightning_outputs, barriers::warpgroup);
        state.load(work.states, at, thread);
    }
    // The state where the piece starts.
    __device__ __forceinline__ void start_state(const Piece& p, uint32_t back) {
        const Work& work = block.work;
        state.set_decay(p, lane);
        if (work.handed && p.first > 0) return take_handed();
        state.clear();
        state.replay(back, block.stages, stage, offsetof(Stage, k), offsetof(Stage, v), warp, lane,
                     [&](const StageState& position) { block.release(block.stages, position); });
        if (p.first > 0 && p.head.reach == from_memory) state.load_stored(work, p, block.split, C, block.rank, thread);
        if (!bidirectional && work.initial) state.add_initial(work, p, block.rank, warp, lane);
    }

    __device__ __forceinline__ void run_piece(const Piece& p, uint32_t back) {
        start_state(p, back);
        decay.set(p, lane);
        store_last_state(p, p.first);
        queue_from_state();
        queue_update();
        ptx::wgmma_wait<1>();
        ptx::hold(from_state);
        decay.apply(p, o, from_state);
        StageState before = stage;
        ptx::wgmma_wait<0>();
        ptx::hold(state.s);
        stage.advance();
        for (uint32_t c = p.first + 1; c < p.last; ++c) {
            store_last_state(p, c);
            queue_from_state();
            queue_scores(before);
            queue_update();
            if (c > p.first + 1) store_outputs(p, c - 2);
            ptx::wgmma_wait<1>();
            ptx::hold(o);
            ptx::hold(from_state);
            finish_chunk(p, before);
            pack_outputs();
            decay.apply(p, o, from_state);
            before = stage;
            ptx::wgmma_wait<0>();
            ptx::hold(state.s);
            stage.advance();
        }
        queue_scores(before);
        if (p.last > p.first + 1) store_outputs(p, p.last - 2);
        ptx::wgmma_wait<0>();
        ptx::hold(o);
        finish_chunk(p, before);
        pack_outputs();
        store_outputs(p, p.last - 1);
        if (block.work.handed && p.last < p.chunks) hand_on();
    }

    __device__ __forceinline__ void run() {
        block.each_piece([&](const Piece& p, uint32_t back) { run_piece(p, back); });
        if (leader()) ptx::tma_store_wait_read<0>();
    }
};

}  // namespace causeway::gpu::la
