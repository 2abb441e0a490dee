// What needs no state, chunk by chunk in parallel: sums of gates, W and P. README.md has the letters.
#include "gpu/gated/channels/gates.cuh"
#include "gpu/gated/delta/gates.cuh"
#include "gpu/gated/delta/inverse.cuh"
#include "gpu/gradient/gated_heads/part.hpp"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::gated_heads {

namespace {

using E = __nv_bfloat16;
using gated_delta::ChunkGates, gated_delta::DiagonalBlock, gated_delta::HalfBlock;

constexpr int prepare_threads = 128;

// What stands for a smaller |β| in the inverse, which W is got from by division by β of the row. Between such tokens
// W then has errors of 64 of these.
constexpr float least_row = 0x1p-14f;

struct PrepareShared {
    Tile k[2], q[2], P, W;
    ChunkGates gates;
    float row[C];  // β, or least_row
    HalfBlock below[6];
    DiagonalBlock diagonal[4];
    HalfBlock inverse[4];
    uint64_t landed;
};

// A NaN stays.
__device__ __forceinline__ float at_least(float least, float x) { return fabsf(x) < least ? copysignf(least, x) : x; }

// Sums of a chunk's gates, by a warp: up to the tokens lane and 32 + lane, and of all.
struct SummedGates {
    float upto[2], all;

    __device__ __forceinline__ SummedGates(const Part& p, int64_t bh, int64_t start, int lane) {
        const gated::Call& call = p.call;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int64_t token = start + 32 * i + lane;
            upto[i] = token < call.N && call.g ? channels::gate_base_2(call.g[bh * p.gate_step + token]) : 0.0f;
        }
        gated_delta::sum_up(upto, lane);
        all = __shfl_sync(all_lanes, upto[1], 31);
    }
    __device__ __forceinline__ void write(ChunkGates& to, int lane) const {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int t = 32 * i + lane;
            to.G[t] = upto[i];
            to.from_start[t] = ptx::ex2_approx(upto[i]), to.to_end[t] = ptx::ex2_approx(all - upto[i]);
        }
    }
};

// The gates of a chunk and β, by a warp.
__device__ __forceinline__ void make_gates(PrepareShared& s, const Part& p, int64_t bh, int64_t start, int lane) {
    float beta[2];  // on its way while gates are added up
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int64_t token = start + 32 * i + lane;
        beta[i] = token < p.call.N ? p.call.beta[bh * p.gate_step + token] : 0.0f;
    }
    const SummedGates sums(p, bh, start, lane);
    sums.write(s.gates, lane);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int t = 32 * i + lane;
        beta[i] = at_least(channels::least_beta, beta[i]);
        s.gates.beta[t] = beta[i], s.row[t] = at_least(least_row, beta[i]);
        s.gates.to_sixteenth[t] = ptx::ex2_approx(__shfl_sync(all_lanes, sums.upto[i], lane | 15) - sums.upto[i]);
    }
}

__device__ __forceinline__ void clear(uint32_t from, uint32_t bytes) {
    for (uint32_t at = 16 * threadIdx.x; at < bytes; at += 16 * prepare_threads)
        ptx::st_shared(from + at, {0, 0, 0, 0});
}

__global__ __launch_bounds__(prepare_threads) void gated_heads_prepare(const __grid_constant__ Maps maps,
                                                                       const __grid_constant__ Part p) {
    extern __shared__ __align__(1024) unsigned char shared[];
    PrepareShared& s = *reinterpret_cast<PrepareShared*>(shared);
    const gated::Call& call = p.call;
    // Chunks that the sweep needs first come first.
    const unsigned all_splits = static_cast<unsigned>(p.all_splits());
    const Split split(p, blockIdx.x % all_splits);
    const int chunk = static_cast<int>(blockIdx.x / all_splits), start = split.token(chunk), b = split.b, h = split.h;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t landed = ptx::shared_address(&s.landed), keys = ptx::shared_address(s.k),
                   rows = ptx::shared_address(s.q), P = ptx::shared_address(&s.P), W = ptx::shared_address(&s.W),
                   gates = ptx::shared_address(&s.gates);
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(landed, 1);
        ptx::fence_mbarrier_init();
        ptx::mbarrier_arrive_expect_tx(landed, 4 * tile_bytes);
        for (int i = 0; i < 2; ++i) {
            ptx::tma_load(keys + i * tile_bytes, maps.k, landed, 64 * i, start, h * p.k_step, b, ptx::evict_normal);
            ptx::tma_load(rows + i * tile_bytes, maps.q, landed, 64 * i, start, h * p.q_step, b, ptx::evict_normal);
        }
    }
    // What lies above the diagonals stays zero.
    clear(P, 2 * tile_bytes);
    clear(ptx::shared_address(s.inverse), sizeof(s.inverse));
    if (warp == 0) make_gates(s, p, split.bh, start, lane);
    __syncthreads();
    ptx::mbarrier_wait(landed, 0);
    float kk[32], qk[32];
    gated_delta::times_keys<E, 128>(kk, keys, keys);
    gated_delta::times_keys<E, 128>(qk, rows, keys);
    const int row = 16 * warp + lane / 4;
    const uint32_t below = ptx::shared_address(s.below), diagonal = ptx::shared_address(&s.diagonal[warp]),
                   inverse = ptx::shared_address(s.inverse);
    ptx::wgmma_wait<0>();
    ptx::hold(kk);
    ptx::hold(qk);
    gated_delta::write_triangle(kk, gates, diagonal, below, warp, lane, s.row[row], s.row[row + 8]);
    gated_delta::invert_diagonal(inverse + warp * static_cast<uint32_t>(sizeof(HalfBlock)), diagonal, lane);
    gated_delta::write_scores<E>(qk, P, gates, call.scale, warp, lane);
    __syncthreads();
    const int first = 2 * (lane % 4);
    gated_delta::write_inverse<E>(W, below, inverse, warp, lane, [&](int block, int n, float2 x) {
        const int t = 16 * block + first + n / 2 * 8, j = row + n % 2 * 8;
        return float2{t == j ? 0.0f : x.x / s.row[t], t + 1 == j ? 0.0f : x.y / s.row[t + 1]};
    });
    ptx::fence_proxy_async();
    __syncthreads();
    if (threadIdx.x > 0) return;
    ptx::tma_store(maps.W, W, p.W_column, start, h, b, ptx::evict_normal);
    ptx::tma_store(maps.P, P, p.P_column, start, h, b, ptx::evict_normal);
    ptx::bulk_store(split.gates(p, chunk), gates, gates_bytes);
    ptx::tma_store_commit();
    ptx::tma_store_wait_read<0>();
    if (p.beside && blockIdx.x + 1 == gridDim.x) ptx::griddepcontrol_wait();
}

constexpr int gates_threads = 128;

// Without the delta rule: the gates' factors alone, a warp for each chunk.
__global__ __launch_bounds__(gates_threads) void gated_heads_gates(const __grid_constant__ Part p) {
    const unsigned at = blockIdx.x * (gates_threads / 32) + threadIdx.x / 32,
                   all_splits = static_cast<unsigned>(p.all_splits());
    if (at >= all_splits * p.chunks) return;
    const int lane = threadIdx.x % 32, chunk = static_cast<int>(at / all_splits);
    const Split split(p, at % all_splits);
    ChunkGates& to = *reinterpret_cast<ChunkGates*>(split.gates(p, chunk));
    SummedGates(p, split.bh, split.token(chunk), lane).write(to, lane);
    to.beta[lane] = to.beta[32 + lane] = 0.0f;
}

}  // namespace

void launch_gates(const Part& p, cudaStream_t stream) {
    constexpr std::int64_t warps = gates_threads / 32;
    launch(gated_heads_gates, "launching gated_heads_gates",
           dim3(static_cast<unsigned>((p.all_splits() * p.chunks + warps - 1) / warps)), gates_threads, 0, 1, false,
           stream, p);
}

void launch_prepare(const Maps& maps, const Part& p, cudaStream_t stream) {
    static_assert(offsetof(ChunkGates, to_sixteenth) == gates_bytes);
    launch(gated_heads_prepare, "launching gated_heads_prepare", dim3(static_cast<unsigned>(p.all_splits() * p.chunks)),
           prepare_threads, sizeof(PrepareShared), 1, p.beside, stream, maps, p);
}

}  // namespace causeway::gpu::gated_heads
