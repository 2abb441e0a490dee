// With the delta rule, the states before the chunks of a part once more, from U. README.md has the letters.
#include "gpu/gradient/gated_heads/sweep.cuh"

namespace causeway::gpu::gated_heads {

namespace {

constexpr int again_stages = 3;

struct AgainShared {
    struct alignas(limits::swizzle_atom) Stage {
        Tile k[2], U;
        ChunkGates gates;
    } stage[again_stages];
    Tile S[2][2];  // on their way to memory, in turns
    uint64_t full[again_stages];
};

// S ← a_last S + Kᵀ (b ⊙ U), from the state before the part. What `gated_heads_states` does too, and as fast alone; but
// with that one here FlashQLA's backward rows take 0.8 % more in the mean (docs/kernels/gated.md).
struct Again {
    using Stage = AgainShared::Stage;
    AgainShared& s;
    const Maps& maps;
    const Part& p;
    const Place at;
    State state;

    __device__ __forceinline__ bool leads() const { return threadIdx.x == 0; }
    __device__ __forceinline__ uint32_t full(int n) const { return ptx::shared_address(&s.full[n % again_stages]); }
    // Chunk n of the part, by one thread.
    __device__ __forceinline__ void load(int n) const {
        const uint32_t to = ptx::shared_address(&s.stage[n % again_stages]), bar = full(n);
        const int token = at.token(n);
        ptx::mbarrier_arrive_expect_tx(bar, 3 * tile_bytes + gates_bytes);
        for (int i = 0; i < 2; ++i)
            ptx::tma_load(to + i * tile_bytes, maps.k, bar, 64 * i, token, at.h * p.k_step, at.b, ptx::evict_normal);
        ptx::tma_load(to + offsetof(Stage, U), maps.U, bar, columns * at.block, token, at.h, at.b, ptx::evict_normal);
        ptx::bulk_load(to + offsetof(Stage, gates), at.gates(p, n), gates_bytes, bar);
    }
    // The state before chunk c, to memory.
    __device__ __forceinline__ void record(int c) {
        const uint32_t by = ptx::shared_address(s.S[c % 2]);
        if (p.over_heads == HeadSums::in_memory && at.h == 0) at.clear_sums(p, c);
        state.pack_state();
        write_transposed(by, state.a);
        ptx::fence_proxy_async();
        __syncthreads();
        if (!leads()) return;
        ptx::bulk_store(state_of(p, p.S, at, c), by, state_bytes);
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
        const int steps = p.chunks - 1;
        if (leads()) {
            for (int n = 0; n < min(again_stages, steps); ++n) load(n);
        }
        if (p.first > 0) state.load_packed(boundary(p, at, p.first));
        else if (at.is_first) state.load(p, at, p.call.state, at.bh);
        else state.load(p, at, p.S_behind, at.index - 1);
        for (int n = 0; n < steps; ++n) {
            record(n);
            step(n);
            // All have read the stage, and the state that was recorded before this one has left.
            if (leads()) ptx::tma_store_wait_read<1>();
            __syncthreads();
            if (leads() && n + again_stages < steps) load(n + again_stages);
        }
        record(p.chunks - 1);
        if (leads()) ptx::tma_store_wait_read<0>();
        if (p.beside && leads() && blockIdx.x + 1 == gridDim.x) ptx::griddepcontrol_wait();
    }
};

__global__ __launch_bounds__(barriers::warpgroup, 1) void gated_heads_again(const __grid_constant__ Maps maps,
                                                                            const __grid_constant__ Part p) {
    extern __shared__ __align__(1024) unsigned char shared[];
    AgainShared& s = *reinterpret_cast<AgainShared*>(shared);
    ptx::griddepcontrol_launch_dependents();
    if (threadIdx.x == 0) {
        for (uint64_t& x : s.full) ptx::mbarrier_init(ptx::shared_address(&x), 1);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    Again{s, maps, p, Place(p)}.run();
}

}  // namespace

void launch_again(const Maps& maps, const Part& p, cudaStream_t stream) {
    launch(gated_heads_again, "launching gated_heads_again", dim3(static_cast<unsigned>(p.all_splits() * p.blocks)),
           barriers::warpgroup, sizeof(AgainShared), 1, p.beside, stream, maps, p);
}

}  // namespace causeway::gpu::gated_heads
