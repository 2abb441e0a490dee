// States of the pieces of a sequence on tensor cores, Float32: what causal_tile<..., Order::state> makes on FMA units.
//
// A block of four warps owns 64 columns of one head and all its ranks, a warp 64 ranks × 32 columns of Kᵀ diag(w) V.
// Operands are sums of two TF32 each (gpu/kit/tf32.cuh); 32 tokens are summed by tensor cores and added to the state by
// FMA units. Within these the state is kept in units of the last token, as in causal_tile.
#pragma once

#include "gpu/exact/register_tile.cuh"
#include "gpu/kit/finite.cuh"
#include "gpu/kit/tf32.cuh"

namespace causeway::gpu::tile {

// Rows in shared memory are 8 banks further than a multiple of 32, so that the lanes of a fragment, four tokens by
// eight columns, read different banks.
struct StatesLayout {
    static constexpr int threads = 128, tokens = 32, stages = 4, ranks = 128, width = 64, k_row = ranks + 8,
                         v_row = width + 8, stage = tokens * (k_row + v_row), weights = stages * stage,
                         floats = weights + tokens;
};

using tf32::HiLo;

struct TileStates {
    using L = StatesLayout;
    static constexpr int m_tiles = 4, n_tiles = 4;  // of 16 ranks and of 8 columns

    const Args& a;
    float* shared;
    const float *K, *V;
    int column0, rank0, lane;  // the block's first column, the warp's first rank
    int warp_column;           // the warp's first column in the block
    double log2_gamma;

    float s[m_tiles][n_tiles][4];

    __device__ TileStates(const Args& args, float* memory, int64_t b, int64_t h, int block_column)
        : a(args), shared(memory), column0(block_column), log2_gamma(args.log2_gamma[h]) {
        const int64_t head = a.first_head + h;
        K = static_cast<const float*>(a.k) + b * a.k_stride[0] + head * a.k_stride[1];
        V = static_cast<const float*>(a.v) + b * a.v_stride[0] + head * a.v_stride[1];
        const int warp = threadIdx.x / 32;
        lane = threadIdx.x % 32, rank0 = warp / 2 * 64, warp_column = warp % 2 * 32;
    }

    // f(element, its rank, its column), for those that the state in memory has.
    template <class F>
    __device__ __forceinline__ void each(const F& f) {
#pragma unroll
        for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
            for (int n = 0; n < n_tiles; ++n) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int rank = rank0 + 16 * m + lane / 4 + i / 2 * 8,
                              column = column0 + warp_column + 8 * n + lane % 4 * 2 + i % 2;
                    if (rank < a.r && column < a.d) f(s[m][n][i], rank, column);
                }
            }
        }
    }
    __device__ void load(const float* from) {
#pragma unroll
        for (int i = 0; i < m_tiles * n_tiles * 4; ++i) s[i / 16][i / 4 % 4][i % 4] = 0;
        if (from) each([&](float& x, int rank, int column) { x = from[int64_t{rank} * a.d + column]; });
    }
    __device__ void store(float* to) {
        each([&](float& x, int rank, int column) { to[int64_t{rank} * a.d + column] = x; });
    }

    // Where this thread copies its rows of the next chunk from.
    struct Source {
        const float *k, *v;
    };
    static constexpr int k_fours = L::ranks / 4, v_fours = L::width / 4;  // of a row
    __device__ Source source(int64_t start) const {
        const int k_at = threadIdx.x % k_fours * 4, v_at = column0 + threadIdx.x % v_fours * 4;
        return {K + (start + threadIdx.x / k_fours) * a.k_stride[2] + k_at,
                V + (start + threadIdx.x / v_fours) * a.v_stride[2] + v_at};
    }
    // Starts copying a chunk, zeros in the place of its first `missing` tokens.
    __device__ __forceinline__ void fetch(int chunk, Source& from, int missing) const {
        float* const k = shared + chunk % L::stages * L::stage;
        float* const v = k + L::tokens * L::k_row;
        const auto rows = [&](float* to, int row, int fours, int left, const float*& at, int64_t stride,
                              const float* any) {
            const int step = L::threads / fours, column = threadIdx.x % fours * 4;
#pragma unroll
            for (int i = 0; i < L::tokens * fours / L::threads; ++i) {
                const int t = threadIdx.x / fours + i * step;
                const bool there = t >= missing && column < left;
                cp_async<16>(to + t * row + column, there ? at : any, there);
                at += step * stride;
            }
        };
        rows(k, L::k_row, k_fours, a.r, from.k, a.k_stride[2], K);
        rows(v, L::v_row, v_fours, a.d - column0, from.v, a.v_stride[2], V);
    }

    // s = factor · s + Σ_t w_t k_tᵀ v_t over the chunk's tokens.
    __device__ __forceinline__ void add(int chunk, float factor) {
        const float* const weight = shared + L::weights + lane % 4;
        const float* const k = shared + chunk % L::stages * L::stage + lane % 4 * L::k_row + rank0 + lane / 4;
        const float* const v =
            shared + chunk % L::stages * L::stage + L::tokens * L::k_row + lane % 4 * L::v_row + warp_column + lane / 4;
        float sum[m_tiles][n_tiles][4] = {};
#pragma unroll
        for (int eight = 0; eight < L::tokens / 8; ++eight) {
            uint32_t v_hi[n_tiles][2], v_lo[n_tiles][2];
#pragma unroll
            for (int n = 0; n < n_tiles; ++n) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const HiLo x(weight[8 * eight + 4 * i] * v[(8 * eight + 4 * i) * L::v_row + 8 * n]);
                    v_hi[n][i] = x.hi, v_lo[n][i] = x.lo;
                }
            }
#pragma unroll
            for (int m = 0; m < m_tiles; ++m) {
                uint32_t k_hi[4], k_lo[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const HiLo x(k[(8 * eight + i / 2 * 4) * L::k_row + 16 * m + i % 2 * 8]);
                    k_hi[i] = x.hi, k_lo[i] = x.lo;
                }
#pragma unroll
                for (int n = 0; n < n_tiles; ++n) ptx::mma_m16n8k8_tf32(sum[m][n], k_lo, v_hi[n]);
#pragma unroll
                for (int n = 0; n < n_tiles; ++n) ptx::mma_m16n8k8_tf32(sum[m][n], k_hi, v_lo[n]);
#pragma unroll
                for (int n = 0; n < n_tiles; ++n) ptx::mma_m16n8k8_tf32(sum[m][n], k_hi, v_hi[n]);
            }
        }
#pragma unroll
        for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
            for (int n = 0; n < n_tiles; ++n) {
#pragma unroll
                for (int i = 0; i < 4; ++i) s[m][n][i] = fmaf(factor, s[m][n][i], sum[m][n][i]);
            }
        }
    }

    // Through the tokens [from, to), of which the first chunk may have fewer than 32.
    __device__ void sweep(int64_t from, int64_t to) {
        const auto chunks = static_cast<int>((to - from + L::tokens - 1) / L::tokens);
        const int64_t start = to - int64_t{chunks} * L::tokens;
        if (threadIdx.x < L::tokens) {
            const int after = L::tokens - 1 - static_cast<int>(threadIdx.x);
            shared[L::weights + threadIdx.x] = static_cast<float>(exp2(log2_gamma * after));
        }
        Factor factor(exp2(log2_gamma * L::tokens), 0);
        Source next = source(start);
        const auto fetch_one = [&](int chunk) {
            if (chunk < chunks) fetch(chunk, next, chunk == 0 ? static_cast<int>(from - start) : 0);
            cp_async_commit();
        };
        for (int i = 0; i < L::stages - 1; ++i) fetch_one(i);
#pragma unroll 1
        for (int c = 0; c < chunks; ++c) {
            cp_async_wait<L::stages - 2>();
            __syncthreads();
            fetch_one(c + L::stages - 1);
            const auto n = static_cast<int>(c == 0 ? start + L::tokens - from : L::tokens);
            add(c, n == L::tokens ? factor.next() : static_cast<float>(exp2(log2_gamma * n)));
        }
        cp_async_wait<0>();
    }

    // Elements of the state in memory that are not finite once more, token by token on FMA units: Inf - Inf of the two
    // parts of an operand is NaN where Inf is right.
    __device__ void sweep_again(const float* given, int64_t from, int64_t to, float* out) const {
        const double gamma = exp2(log2_gamma);
        __syncwarp();  // elements that other lanes have stored
#pragma unroll 1
        for (int i = lane; i < m_tiles * 16 * n_tiles * 8; i += 32) {
            const int rank = rank0 + i / 32, column = column0 + warp_column + i % 32;
            const int64_t at = int64_t{rank} * a.d + column;
            if (rank >= a.r || column >= a.d || gpu::is_finite(out[at])) continue;
            float x = given ? given[at] : 0.0f;
            Factor factor(gamma, 0);
            for (int64_t t = from; t < to; ++t)
                x = fmaf(K[t * a.k_stride[2] + rank], V[t * a.v_stride[2] + column], factor.next() * x);
            out[at] = x;
        }
    }
    // Whether all of this warp's state is.
    __device__ bool is_finite() const {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < m_tiles * n_tiles * 4; ++i) sum = fmaf(s[i / 16][i / 4 % 4][i % 4], 0.0f, sum);
        return __all_sync(all_lanes, sum == 0.0f);
    }
};

__global__ __launch_bounds__(StatesLayout::threads, 2) void tile_states(const __grid_constant__ Args a) {
    extern __shared__ float shared[];
    const Place at = place(a, a.carried_pieces());
    TileStates states(a, shared, at.b, at.h, static_cast<int>(at.column_block) * StatesLayout::width);
    const int64_t size = int64_t{a.r} * a.d;
    const float* given = at.i == 0 && a.state ? a.state + at.batch_head(a) * size : nullptr;
    float* const carried = a.carried + at.batch_head(a) * (1 + a.carried_pieces()) * size;
    states.load(given);
    if (at.i == 0) states.store(carried);
    const Tokens seen = seen_of_piece(a, states.log2_gamma, at.i);
    if (seen.cut) states.load(given = nullptr);
    states.sweep(seen.from, seen.to);
    float* const out = carried + (at.i + 1) * size;
    states.store(out);
    if (!states.is_finite()) states.sweep_again(given, seen.from, seen.to, out);
}

}  // namespace causeway::gpu::tile
