// Without the delta rule, states and their gradients: sums of outer products, chunk after chunk. README.md has the
// letters.
#include "gpu/gradient/gated_heads/sweep.cuh"
#include "gpu/kit/pipeline.cuh"

namespace causeway::gpu::gated_heads {

namespace {

constexpr uint32_t stages = 3;

struct StatesShared {
    struct alignas(limits::swizzle_atom) Stage {
        Tile rows[2], values;
        ChunkGates gates;
    } stage[stages];
    Tile S[2][2];  // on their way to memory, in turns
    PipelineBarriers<stages> barriers;
};
using Stage = StatesShared::Stage;
using StatesPipeline = Pipeline<stages, sizeof(Stage), offsetof(StatesShared, stage), offsetof(StatesShared, barriers)>;

// S ← a_last S + Kᵀ (b ⊙ V), or backwards E ← a_last E + Qᵀ (a ⊙ D).
template <Sum sum>
struct States {
    static constexpr bool backwards = sum == Sum::backward || sum == Sum::backward_map,
                          is_map = sum == Sum::forward_map || sum == Sum::backward_map;
    static constexpr bool has_loader = sum != Sum::again;
    StatesShared& s;
    const Maps& maps;
    const Part& p;
    const Place at;
    const StatesPipeline pipe;
    State state;
    float passes = 1;  // what a state keeps of itself over the chunks so far

    __device__ __forceinline__ bool leads() const { return threadIdx.x == 0; }
    __device__ __forceinline__ uint32_t products() const { return sum == Sum::again ? p.chunks - 1 : p.chunks; }
    __device__ __forceinline__ int chunk(uint32_t n) const {
        return backwards ? p.chunks - 1 - static_cast<int>(n) : static_cast<int>(n);
    }
    // The n-th chunk of the walk, by one thread.
    __device__ __forceinline__ void load(uint32_t n) const {
        const CUtensorMap &rows = backwards ? maps.q : maps.k, &values = backwards ? maps.dO : maps.U;
        const int rows_step = backwards ? p.q_step : p.k_step, values_step = backwards ? p.dO_step : p.U_step,
                  token = at.token(chunk(n));
        const uint32_t to = pipe.at(n), bar = pipe.full(n);
        pipe.producer_expect(n, 3 * tile_bytes + gates_bytes);
        for (int i = 0; i < 2; ++i)
            ptx::tma_load(to + i * tile_bytes, rows, bar, 64 * i, token, at.h * rows_step, at.b, ptx::evict_normal);
        ptx::tma_load(to + offsetof(Stage, values), values, bar, columns * at.block, token, at.h * values_step, at.b,
                      ptx::evict_normal);
        ptx::bulk_load(to + offsetof(Stage, gates), at.gates(p, chunk(n)), gates_bytes, bar);
    }
    __device__ __forceinline__ void load_all() const {
        for (uint32_t n = 0; n < products(); ++n) pipe.producer_acquire(n), load(n);
    }
    // The values of a chunk by their factors, transposed, once they are there.
    __device__ __forceinline__ void read_values(uint32_t (&x)[16], uint32_t n) const {
        const Stage& stage = s.stage[n % stages];
        const auto& factors = backwards ? stage.gates.from_start : stage.gates.to_end;
        const float by = backwards ? p.call.scale : 1.0f;
        const int col = 2 * (ptx::laneid() % 4);
        pipe.consumer_wait(n);
        read_transposed(x, ptx::shared_address(&stage.values));
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const float2 f = factors_at(factors, i, col), y = unpack(E{}, x[i]);
            x[i] = pack(E{}, by * f.x * y.x, by * f.y * y.y);
        }
    }
    // From shared memory to where the state of chunk c lies, by one thread.
    __device__ __forceinline__ void store(uint32_t by, int c) const {
        const int token = at.token(c), which = backwards ? 2 : at.block;
        if (!p.last_chunks) ptx::bulk_store(state_of(p, backwards ? p.E : p.S, at, c), by, state_bytes);
        else if (backwards && at.block > 0)
            ptx::bulk_store(p.E + (at.index * p.chunks + c) * state_bytes, by, state_bytes);
        else if (p.is_cut(token)) ptx::bulk_store(p.of_last_chunk(at.bh, which), by, state_bytes);
        else {
            const CUtensorMap& to = backwards ? maps.dv : at.block == 0 ? maps.dq : maps.dk;
            for (int i = 0; i < 2; ++i)
                ptx::tma_store(to, by + i * tile_bytes, 64 * i, token, at.h, at.b, ptx::evict_normal);
        }
        ptx::tma_store_commit();
    }
    // The state that the n-th chunk meets, to memory.
    __device__ __forceinline__ void record(uint32_t n) {
        const int c = chunk(n), next = p.first + c;
        const bool keeps_all = backwards || p.S || p.last_chunks;
        state.pack_state();
        if (sum == Sum::forward && !keeps_all && next > 0 && next % p.every == 0)
            state.store_packed(boundary(p, at, next));
        if (!keeps_all) return;
        // The sums begin as zeros, as soon as the kernels before have been through with the states of the part.
        if ((sum == Sum::again || (sum == Sum::backward && p.last_chunks)) && p.over_heads == HeadSums::in_memory &&
            at.h == 0)
            at.clear_sums(p, c);
        const uint32_t by = ptx::shared_address(s.S[n % 2]);
        write_transposed(by, state.a);
        ptx::fence_proxy_async();
        // The state before this one has left, whose place the next one takes.
        if (leads()) ptx::tma_store_wait_read<0>();
        ptx::named_barrier_sync(heads_written, barriers::warpgroup);
        if (leads()) store(by, c);
    }
    __device__ __forceinline__ void walk() {
        if (!has_loader && leads()) {
            for (uint32_t n = 0; n < min(stages, products()); ++n) load(n);
        }
        for (uint32_t n = 0; n < products(); ++n) {
            const Stage& stage = s.stage[n % stages];
            if (!is_map) record(n);
            uint32_t x[16];
            read_values(x, n);
            const float keeps = stage.gates.from_start[C - 1];
            passes *= keeps;
            state.scale(keeps);
            state.add_outer(x, ptx::shared_address(stage.rows));
            ptx::wgmma_wait<0>();
            ptx::hold(state.s);
            if constexpr (has_loader) {
                pipe.consumer_release(n, ptx::laneid());
            } else {
                ptx::named_barrier_sync(heads_free, barriers::warpgroup);
                if (leads() && n + stages < products()) load(n + stages);
            }
        }
        if (sum == Sum::again) record(products());
    }

    __device__ __forceinline__ void begin_forward() {
        if (sum == Sum::again && p.first > 0) state.load_packed(boundary(p, at, p.first));
        else if (at.is_first) state.load(p, at, p.call.state, at.bh);
        else if (is_map) state.clear();
        else state.load(p, at, p.S_behind, at.index - 1);
    }
    __device__ __forceinline__ void begin_backward() {
        if (!p.ends_splits()) state.load_raw(p.between + blockIdx.x * raw_floats);
        else if (at.is_last) state.load(p, at, p.dstate_in, at.bh);
        else if (is_map) state.clear();
        else state.load(p, at, p.E_before, at.index + 1);
    }
    // The state behind a split, and the matrix that the state before it is multiplied by: what passes, times one.
    __device__ __forceinline__ void end_forward_map() {
        state.store(p, at, p.S_behind, at.index);
        const int R = p.map_rows();
        if (at.block > 0) return;
        for (int i = static_cast<int>(threadIdx.x); i < R * R; i += barriers::warpgroup)
            p.A[at.index * R * R + i] = i / R == i % R ? passes : 0.0f;
    }
    __device__ __forceinline__ void end_backward() {
        if (p.first > 0) state.store_raw(p.between + blockIdx.x * raw_floats);
        else if (at.is_first) state.store(p, at, p.dstate_out, at.bh);
    }
    __device__ __forceinline__ void run() {
        if constexpr (backwards) begin_backward();
        else begin_forward();
        walk();
        if constexpr (sum == Sum::forward) state.store(p, at, at.is_last ? p.after : nullptr, at.bh);
        else if constexpr (sum == Sum::forward_map) end_forward_map();
        else if constexpr (sum == Sum::backward) end_backward();
        else if constexpr (sum == Sum::backward_map) state.store(p, at, p.E_before, at.index);
        if ((sum == Sum::forward || sum == Sum::backward) && !are_finite(state.s)) *p.not_finite = 1;
        if (leads()) ptx::tma_store_wait_read<0>();
    }
};

// One warp loads; but of a part's states once more, beside whose blocks others want room, a thread that also works.
template <Sum sum>
constexpr int states_threads = barriers::warpgroup + (States<sum>::has_loader ? 32 : 0);

template <Sum sum>
__global__ __launch_bounds__(states_threads<sum>, 1) void gated_heads_states(const __grid_constant__ Maps maps,
                                                                             const __grid_constant__ Part p) {
    extern __shared__ __align__(1024) unsigned char shared[];
    StatesShared& s = *reinterpret_cast<StatesShared*>(shared);
    const StatesPipeline pipe{ptx::shared_address(shared)};
    const Place at(p);
    ptx::griddepcontrol_launch_dependents();
    // Nothing comes behind the last split, and nothing before the first one.
    if ((sum == Sum::forward_map && at.is_last) || (sum == Sum::backward_map && at.is_first)) return;
    if (threadIdx.x == 0) {
        pipe.init(1, 4 * warp_arrivals);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    States<sum> states{s, maps, p, at, pipe};
    if (threadIdx.x < barriers::warpgroup) states.run();
    else if (threadIdx.x == barriers::warpgroup) states.load_all();
    if (p.beside && threadIdx.x == 0 && blockIdx.x + 1 == gridDim.x) ptx::griddepcontrol_wait();
}

template <Sum sum>
void launch_as(const Maps& maps, const Part& p, cudaStream_t stream) {
    launch(gated_heads_states<sum>, "launching gated_heads_states",
           dim3(static_cast<unsigned>(p.all_splits() * p.blocks)), states_threads<sum>, sizeof(StatesShared), 1,
           p.beside, stream, maps, p);
}

}  // namespace

void launch_states(Sum sum, const Maps& maps, const Part& p, cudaStream_t stream) {
    switch (sum) {
        case Sum::again: return launch_as<Sum::again>(maps, p, stream);
        case Sum::forward: return launch_as<Sum::forward>(maps, p, stream);
        case Sum::forward_map: return launch_as<Sum::forward_map>(maps, p, stream);
        case Sum::backward: return launch_as<Sum::backward>(maps, p, stream);
        case Sum::backward_map: return launch_as<Sum::backward_map>(maps, p, stream);
    }
}

}  // namespace causeway::gpu::gated_heads
