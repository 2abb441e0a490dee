// The state, chunk after chunk, for U, and for itself where all chunks are one part; and splits as maps of the state.
// README.md has the letters.
#include "gpu/gradient/gated_heads/sweep.cuh"
#include "gpu/kit/pipeline.cuh"

namespace causeway::gpu::gated_heads {

namespace {

constexpr uint32_t stages = 4;
constexpr int forward_threads = barriers::warpgroup + 32;  // one warp loads

struct ForwardShared {
    struct alignas(limits::swizzle_atom) Stage {
        Tile k[2], v, W;
        ChunkGates gates;
    } stage[stages];
    Tile S[2], U;  // on their way to memory
    PipelineBarriers<stages> barriers;
};
static_assert(sizeof(ForwardShared) <= limits::max_shared_bytes);
using Stage = ForwardShared::Stage;
using ForwardPipeline =
    Pipeline<stages, sizeof(Stage), offsetof(ForwardShared, stage), offsetof(ForwardShared, barriers)>;

// By one thread.
__device__ __forceinline__ void load(const ForwardPipeline& pipe, const Maps& maps, const Part& p, const Place& at) {
    for (int c = 0; c < p.chunks; ++c) {
        const uint32_t n = static_cast<uint32_t>(c);
        const int token = at.token(c);
        pipe.producer_acquire(n);
        const uint32_t to = pipe.at(n), bar = pipe.full(n);
        pipe.producer_expect(n, 4 * tile_bytes + gates_bytes);
        for (int i = 0; i < 2; ++i)
            ptx::tma_load(to + i * tile_bytes, maps.k, bar, 64 * i, token, at.h * p.k_step, at.b, ptx::evict_normal);
        ptx::tma_load(to + offsetof(Stage, v), maps.v, bar, columns * at.block, token, at.h * p.v_step, at.b,
                      ptx::evict_normal);
        ptx::tma_load(to + offsetof(Stage, W), maps.W, bar, p.W_column, token, at.h, at.b, ptx::evict_normal);
        ptx::bulk_load(to + offsetof(Stage, gates), at.gates(p, c), gates_bytes, bar);
    }
}

// is_map: the state behind a split, or the columns of A behind those, alone.
template <bool is_map>
struct Forward {
    ForwardShared& s;
    const Maps& maps;
    const Part& p;
    const Place at;
    const ForwardPipeline pipe;
    State state;
    uint32_t written[16];  // U of the chunk before

    // The state before chunk c, where it is wanted, and U of the chunk before, to memory.
    __device__ __forceinline__ void record(int c, bool with_state) const {
        if (threadIdx.x == 0) ptx::tma_store_wait_read<0>();
        ptx::named_barrier_sync(heads_free, barriers::warpgroup);
        if (with_state) write_transposed(ptx::shared_address(s.S), state.a);
        if (c > 0) write_transposed(ptx::shared_address(&s.U), written);
        ptx::fence_proxy_async();
        ptx::named_barrier_sync(heads_written, barriers::warpgroup);
        if (threadIdx.x > 0) return;
        if (with_state) ptx::bulk_store(state_of(p, p.S, at, c), ptx::shared_address(s.S), state_bytes);
        if (c > 0)
            ptx::tma_store(maps.U, ptx::shared_address(&s.U), columns * at.block, at.token(c - 1), at.h, at.b,
                           ptx::evict_normal);
        ptx::tma_store_commit();
    }
    // U = diag(β) Y, Y = X + W diag(β) X, X = V - a ⊙ K S.
    __device__ __forceinline__ void step(int c) {
        const uint32_t n = static_cast<uint32_t>(c), tiles = pipe.at(n);
        const Stage& stage = s.stage[n % stages];
        const int col = 2 * (ptx::laneid() % 4);
        float w[32], y[32];
        uint32_t x[16];
        pipe.consumer_wait(n);
        state.times_rows(w, tiles);
        if (!is_map && (c > 0 || p.S)) record(c, p.S != nullptr);
        read_transposed(x, tiles + static_cast<uint32_t>(offsetof(Stage, v)));
        ptx::wgmma_wait<0>();
        ptx::hold(w);
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const float2 f = factors_at(stage.gates.from_start, i, col), beta = factors_at(stage.gates.beta, i, col),
                         v = unpack(E{}, x[i]);
            y[2 * i] = fmaf(-f.x, w[2 * i], v.x), y[2 * i + 1] = fmaf(-f.y, w[2 * i + 1], v.y);
            x[i] = pack(E{}, beta.x * y[2 * i], beta.y * y[2 * i + 1]);
        }
        add_square<true>(y, x, tiles + static_cast<uint32_t>(offsetof(Stage, W)));
        state.scale(stage.gates.from_start[C - 1]);
        ptx::wgmma_wait<0>();
        ptx::hold(y);
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const float2 f = factors_at(stage.gates.to_end, i, col), beta = factors_at(stage.gates.beta, i, col);
            const float2 u = {beta.x * y[2 * i], beta.y * y[2 * i + 1]};
            if (!is_map) written[i] = pack(E{}, u.x, u.y);
            x[i] = pack(E{}, f.x * u.x, f.y * u.y);
        }
        state.add_outer(x, tiles);
        ptx::wgmma_wait<0>();
        ptx::hold(state.s);
        pipe.consumer_release(n, ptx::laneid());
        state.pack_state();
    }
    // The state behind the whole split, from the one given before the first split, else from zeros.
    __device__ __forceinline__ void run_map() {
        const int R = p.map_rows(), of_A = at.block - p.blocks;
        if (of_A < 0) {
            state.load(p, at, at.is_first ? p.call.state : nullptr, at.bh);
        } else {
            state.clear();
            state.each(of_A, [=](float& x, int row, int column) { x = row == column ? 1.0f : 0.0f; });
        }
        state.pack_state();
        for (int c = 0; c < p.chunks; ++c) step(c);
        if (of_A < 0) return state.store(p, at, p.S_behind, at.index);
        float* const A = p.A + at.index * R * R;
        state.each(of_A, [=](float& x, int row, int column) {
            if (row < R) A[row * R + column] = x;
        });
    }
    __device__ __forceinline__ void run() {
        if (p.first > 0) state.load_raw(p.between + blockIdx.x * raw_floats);
        else if (at.is_first) state.load(p, at, p.call.state, at.bh);
        else state.load(p, at, p.S_behind, at.index - 1);
        state.pack_state();
        for (int c = 0; c < p.chunks; ++c) {
            step(c);
            const int next = p.first + c + 1;
            if (next % p.every == 0 && next < p.split_chunks) state.store_packed(boundary(p, at, next));
        }
        record(p.chunks, false);
        if (!p.ends_splits()) state.store_raw(p.between + blockIdx.x * raw_floats);
        if (p.ends_splits() && at.is_last) state.store(p, at, p.after, at.bh);
        if (p.ends_splits() && !are_finite(state.s)) *p.not_finite = 1;
        if (threadIdx.x == 0) ptx::tma_store_wait_read<0>();
    }
};

template <bool is_map>
__global__ __launch_bounds__(forward_threads, 1) void gated_heads_forward(const __grid_constant__ Maps maps,
                                                                          const __grid_constant__ Part p) {
    extern __shared__ __align__(1024) unsigned char shared[];
    ForwardShared& s = *reinterpret_cast<ForwardShared*>(shared);
    const ForwardPipeline pipe{ptx::shared_address(shared)};
    const Place at(p, is_map ? p.blocks + p.map_rows() / columns : p.blocks);
    ptx::griddepcontrol_launch_dependents();
    // Nothing comes behind the last split, and the first one starts from the state that is given.
    if (is_map && (at.is_last || (at.is_first && at.block >= p.blocks))) return;
    if (threadIdx.x == 0) {
        pipe.init(1, 4 * warp_arrivals);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= barriers::warpgroup) {
        if (threadIdx.x == barriers::warpgroup) load(pipe, maps, p, at);
        return;
    }
    Forward<is_map> forward{s, maps, p, at, pipe};
    if constexpr (is_map) forward.run_map();
    else forward.run();
}

}  // namespace

void launch_forward(const Maps& maps, const Part& p, cudaStream_t stream) {
    launch(gated_heads_forward<false>, "launching gated_heads_forward",
           dim3(static_cast<unsigned>(p.all_splits() * p.blocks)), forward_threads, sizeof(ForwardShared), 1, false,
           stream, maps, p);
}

void launch_forward_maps(const Maps& maps, const Part& p, cudaStream_t stream) {
    launch(gated_heads_forward<true>, "launching gated_heads_forward for maps",
           dim3(static_cast<unsigned>(p.all_splits() * (p.blocks + p.map_rows() / columns))), forward_threads,
           sizeof(ForwardShared), 1, false, stream, maps, p);
}

}  // namespace causeway::gpu::gated_heads
