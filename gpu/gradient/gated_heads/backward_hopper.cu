// The gradient of the state, chunk after chunk, the last one first; and splits as maps of it. README.md has the
// letters.
#include "gpu/gradient/gated_heads/sweep.cuh"
#include "gpu/kit/pipeline.cuh"

namespace causeway::gpu::gated_heads {

namespace {

constexpr uint32_t stages = 3;
constexpr int backward_threads = barriers::warpgroup + 32;  // one warp loads

struct BackwardShared {
    struct alignas(limits::swizzle_atom) Stage {
        Tile k[2], q[2], dO, W, P;
        ChunkGates gates;
    } stage[stages];
    Tile S[2], X;  // E and dX on their way to memory
    PipelineBarriers<stages> barriers;
};
static_assert(sizeof(BackwardShared) <= limits::max_shared_bytes);
using Stage = BackwardShared::Stage;
using BackwardPipeline =
    Pipeline<stages, sizeof(Stage), offsetof(BackwardShared, stage), offsetof(BackwardShared, barriers)>;

// By one thread.
__device__ __forceinline__ void load(const BackwardPipeline& pipe, const Maps& maps, const Part& p, const Place& at) {
    for (int i = 0; i < p.chunks; ++i) {
        const uint32_t n = static_cast<uint32_t>(i);
        const int c = p.chunks - 1 - i, token = at.token(c);
        pipe.producer_acquire(n);
        const uint32_t to = pipe.at(n), bar = pipe.full(n);
        pipe.producer_expect(n, 7 * tile_bytes + gates_bytes);
        for (int j = 0; j < 2; ++j) {
            ptx::tma_load(to + j * tile_bytes, maps.k, bar, 64 * j, token, at.h * p.k_step, at.b, ptx::evict_normal);
            ptx::tma_load(to + offsetof(Stage, q) + j * tile_bytes, maps.q, bar, 64 * j, token, at.h * p.q_step, at.b,
                          ptx::evict_normal);
        }
        ptx::tma_load(to + offsetof(Stage, dO), maps.dO, bar, columns * at.block, token, at.h * p.dO_step, at.b,
                      ptx::evict_normal);
        ptx::tma_load(to + offsetof(Stage, W), maps.W, bar, p.W_column, token, at.h, at.b, ptx::evict_normal);
        ptx::tma_load(to + offsetof(Stage, P), maps.P, bar, p.P_column, token, at.h, at.b, ptx::evict_normal);
        ptx::bulk_load(to + offsetof(Stage, gates), at.gates(p, c), gates_bytes, bar);
    }
}

// is_map: the gradient of the state before a split, alone.
template <bool is_map>
struct Backward {
    BackwardShared& s;
    const Maps& maps;
    const Part& p;
    const Place at;
    const BackwardPipeline pipe;
    State state;        // E
    uint32_t read[16];  // dX of the chunk after this one

    // E of chunk c, where it is wanted, and dX of the chunk after it, to memory.
    __device__ __forceinline__ void record(int c, bool with_state) const {
        if (threadIdx.x == 0) ptx::tma_store_wait_read<0>();
        ptx::named_barrier_sync(heads_free, barriers::warpgroup);
        if (with_state) write_transposed(ptx::shared_address(s.S), state.a);
        if (c + 1 < p.chunks) write_transposed(ptx::shared_address(&s.X), read);
        ptx::fence_proxy_async();
        ptx::named_barrier_sync(heads_written, barriers::warpgroup);
        if (threadIdx.x > 0) return;
        if (with_state) ptx::bulk_store(state_of(p, p.E, at, c), ptx::shared_address(s.S), state_bytes);
        if (c + 1 < p.chunks)
            ptx::tma_store(maps.dv, ptx::shared_address(&s.X), columns * at.block, at.token(c + 1), at.h, at.b,
                           ptx::evict_normal);
        ptx::tma_store_commit();
    }
    // dX = diag(β) Z, Z = dU + Wᵀ diag(β) dU.
    __device__ __forceinline__ void step(uint32_t n) {
        const uint32_t tiles = pipe.at(n);
        const Stage& stage = s.stage[n % stages];
        const int col = 2 * (ptx::laneid() % 4), c = p.chunks - 1 - static_cast<int>(n);
        float z[32], w[32];
        uint32_t dO[16], a[16];
        pipe.consumer_wait(n);
        read_transposed(dO, tiles + static_cast<uint32_t>(offsetof(Stage, dO)));
        state.pack_state();
        state.times_rows(w, tiles);
        add_square<false, true>(z, dO, tiles + static_cast<uint32_t>(offsetof(Stage, P)));
        uint32_t from_dO[16];
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const float2 f = factors_at(stage.gates.from_start, i, col), d = unpack(E{}, dO[i]);
            from_dO[i] = pack(E{}, p.call.scale * f.x * d.x, p.call.scale * f.y * d.y);
        }
        if (!is_map) record(c, true);
        ptx::wgmma_wait<0>();
        ptx::hold(w);
        ptx::hold(z);
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const float2 f = factors_at(stage.gates.to_end, i, col), beta = factors_at(stage.gates.beta, i, col);
            z[2 * i] = fmaf(f.x, w[2 * i], z[2 * i]), z[2 * i + 1] = fmaf(f.y, w[2 * i + 1], z[2 * i + 1]);
            a[i] = pack(E{}, beta.x * z[2 * i], beta.y * z[2 * i + 1]);
        }
        add_square<false>(z, a, tiles + static_cast<uint32_t>(offsetof(Stage, W)));
        state.scale(stage.gates.from_start[C - 1]);
        state.add_outer(from_dO, tiles + static_cast<uint32_t>(offsetof(Stage, q)));
        ptx::wgmma_wait<1>();
        ptx::hold(z);
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const float2 f = factors_at(stage.gates.from_start, i, col), beta = factors_at(stage.gates.beta, i, col);
            const float2 x = {beta.x * z[2 * i], beta.y * z[2 * i + 1]};
            if (!is_map) read[i] = pack(E{}, x.x, x.y);
            a[i] = pack(E{}, -f.x * x.x, -f.y * x.y);
        }
        state.add_outer(a, tiles);
        ptx::wgmma_wait<0>();
        ptx::hold(state.s);
        pipe.consumer_release(n, ptx::laneid());
    }
    // From what is given behind the last split, else from zeros.
    __device__ __forceinline__ void run_map() {
        state.load(p, at, at.is_last ? p.dstate_in : nullptr, at.bh);
        for (int n = 0; n < p.chunks; ++n) step(static_cast<uint32_t>(n));
        state.store(p, at, p.E_before, at.index);
    }
    __device__ __forceinline__ void run() {
        float* const between = p.between + blockIdx.x * raw_floats;
        if (!p.ends_splits()) state.load_raw(between);
        else if (at.is_last) state.load(p, at, p.dstate_in, at.bh);
        else state.load(p, at, p.E_before, at.index + 1);
        for (int n = 0; n < p.chunks; ++n) step(static_cast<uint32_t>(n));
        record(-1, false);
        if (!are_finite(state.s)) *p.not_finite = 1;
        if (p.first > 0) state.store_raw(between);
        else if (at.is_first) state.store(p, at, p.dstate_out, at.bh);
        if (threadIdx.x == 0) ptx::tma_store_wait_read<0>();
    }
};

template <bool is_map>
__global__ __launch_bounds__(backward_threads, 1) void gated_heads_backward(const __grid_constant__ Maps maps,
                                                                            const __grid_constant__ Part p) {
    extern __shared__ __align__(1024) unsigned char shared[];
    BackwardShared& s = *reinterpret_cast<BackwardShared*>(shared);
    const BackwardPipeline pipe{ptx::shared_address(shared)};
    const Place at(p);
    ptx::griddepcontrol_launch_dependents();
    if (is_map && at.is_first) return;  // nothing comes before it
    if (threadIdx.x == 0) {
        pipe.init(1, 4 * warp_arrivals);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= barriers::warpgroup) {
        if (threadIdx.x > barriers::warpgroup) return;
        load(pipe, maps, p, at);
        if (p.beside && blockIdx.x + 1 == gridDim.x) ptx::griddepcontrol_wait();
        return;
    }
    Backward<is_map> backward{s, maps, p, at, pipe};
    if constexpr (is_map) backward.run_map();
    else backward.run();
}

template <bool is_map>
void backward(const Maps& maps, const Part& p, cudaStream_t stream) {
    launch(gated_heads_backward<is_map>, "launching gated_heads_backward",
           dim3(static_cast<unsigned>(p.all_splits() * p.blocks)), backward_threads, sizeof(BackwardShared), 1,
           p.beside, stream, maps, p);
}

}  // namespace

void launch_backward(const Maps& maps, const Part& p, cudaStream_t stream) { backward<false>(maps, p, stream); }

void launch_backward_maps(const Maps& maps, const Part& p, cudaStream_t stream) { backward<true>(maps, p, stream); }

}  // namespace causeway::gpu::gated_heads
