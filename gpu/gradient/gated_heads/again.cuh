// States once more, from U: by a warpgroup, with 64 columns of v. README.md has the letters.
#pragma once

#include "gpu/gradient/gated_heads/sweep.cuh"

namespace causeway::gpu::gated_heads {

constexpr int again_stages = 2;

struct AgainShared {
    struct alignas(limits::swizzle_atom) Stage {
        Tile k[2], U;
        ChunkGates gates;
    } stage[again_stages];
    Tile S[2];  // on its way to memory
    uint64_t full[again_stages];
};

// S ← a_last S + Kᵀ (b ⊙ U), from the last state that was kept.
struct Again {
    using Stage = AgainShared::Stage;
    AgainShared& s;
    const Maps& maps;
    const Part& p;
    const Place at;
    State state;

    __device__ __forceinline__ bool leads() const { return threadIdx.x % barriers::warpgroup == 0; }
    __device__ __forceinline__ uint32_t full(int n) const { return ptx::shared_address(&s.full[n % again_stages]); }
    // The n-th of the chunks, chunk c of the part, by one thread.
    __device__ __forceinline__ void load(int n, int c) const {
        const uint32_t to = ptx::shared_address(&s.stage[n % again_stages]), bar = full(n);
        const int token = (p.first + c) * C;
        ptx::mbarrier_arrive_expect_tx(bar, 3 * tile_bytes + gates_bytes);
        for (int i = 0; i < 2; ++i)
            ptx::tma_load(to + i * tile_bytes, maps.k, bar, 64 * i, token, at.h * p.k_step, at.b, ptx::evict_normal);
        ptx::tma_load(to + offsetof(Stage, U), maps.U, bar, columns * at.block, token, at.h, at.b, ptx::evict_normal);
        ptx::bulk_load(to + offsetof(Stage, gates), gates_of(p, at, c), gates_bytes, bar);
    }
    // The state before chunk c, to memory.
    __device__ __forceinline__ void record(int c) {
        state.pack_state();
        write_transposed(ptx::shared_address(s.S), state.a);
        ptx::fence_proxy_async();
        ptx::named_barrier_sync(heads_again, barriers::warpgroup);
        if (!leads()) return;
        const int64_t tile = (at.bh * p.chunks + c) * p.blocks + at.block;
        ptx::bulk_store(p.S + tile * state_bytes, ptx::shared_address(s.S), state_bytes);
        ptx::tma_store_commit();
    }
    __device__ __forceinline__ void step(int n) {
        const Stage& stage = s.stage[n % again_stages];
        const uint32_t tiles = ptx::shared_address(&stage);
        const int col = 2 * (ptx::laneid() % 4);
        uint32_t u[16];
        ptx::mbarrier_wait(full(n), n / again_stages % 2);
        read_transposed(u, tiles + static_cast<uint32_t>(offsetof(Stage, U)));
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const float2 f = factors_at(stage.gates.to_end, i, col), x = unpack(E{}, u[i]);
            u[i] = pack(E{}, f.x * x.x, f.y * x.y);
        }
        state.scale(stage.gates.from_start[C - 1]);
        state.add_outer(u, tiles);
        ptx::wgmma_wait<0>();
        ptx::hold(state.s);
    }
    __device__ __forceinline__ void run() {
        const int from = p.first / p.every * p.every - p.first, steps = p.chunks - 1 - from;
        if (leads()) {
            for (int n = 0; n < min(again_stages, steps); ++n) load(n, from + n);
        }
        if (from + p.first == 0) state.load(p, at, p.call.state);
        else state.load_raw(boundary(p, at, from + p.first));
        for (int n = 0; n < steps; ++n) {
            if (from + n >= 0) record(from + n);
            step(n);
            // All have read the stage, and the state that was recorded has left.
            if (leads()) ptx::tma_store_wait_read<0>();
            ptx::named_barrier_sync(heads_again, barriers::warpgroup);
            if (leads() && n + again_stages < steps) load(n + again_stages, from + n + again_stages);
        }
        record(p.chunks - 1);
        if (leads()) ptx::tma_store_wait_read<0>();
    }
};

}  // namespace causeway::gpu::gated_heads
