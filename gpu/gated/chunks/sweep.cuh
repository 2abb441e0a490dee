// What the walks through the chunks of a head share, forwards (sweep.cu) and backwards (gpu/gradient/gated_chunks):
// thread blocks of 32 columns of a state, 8 to a warp, tiles of k and q with their gates, and C×C matrices.
#pragma once

#include "gpu/gated/chunks.hpp"
#include "gpu/gated/fma.cuh"

namespace causeway::gpu::gated {

constexpr int sweep_threads = 128, sweep_columns = 32;

// Which columns of which state a thread has.
struct SweepPlace {
    int warp, rg, cg, column;
    int64_t bh, b, h;  // of k and v

    explicit __device__ __forceinline__ SweepPlace(const Call& call) {
        const int lane = threadIdx.x % 32, wide = (call.dv + sweep_columns - 1) / sweep_columns;
        warp = threadIdx.x / 32, rg = lane % 16, cg = lane / 16;
        bh = blockIdx.x / wide, b = bh / call.heads, h = bh % call.heads;
        column = static_cast<int>(blockIdx.x % wide) * sweep_columns + warp * 8 + cg * 4;
    }
    // The thread's four columns of row 16 i + rg in rows of 8 floats.
    __device__ __forceinline__ int mine(int i) const { return (i * 16 + rg) * 8 + cg * 4; }
};

// How many tokens of a part chunk `chunk` has.
template <int C>
__device__ __forceinline__ int tokens_of(const Part& p, int chunk) {
    return static_cast<int>(min(p.tokens - int64_t{chunk} * C, int64_t{C}));
}

// Starts the copy of a tile of k (item 0) or of the item-th of its heads of q, and, with a gate per channel, of the log
// gates of a tile of k.
template <int DK, int C, Gates gates>
__device__ __forceinline__ void stage_item(float4* rows, float4* log_gates, const Part& p, SweepPlace at, int chunk,
                                           int item) {
    const Call& call = p.call;
    const int n = tokens_of<C>(p, chunk);
    const int64_t start = p.first + int64_t{chunk} * C;
    const Operand& x = item == 0 ? call.k : call.q;
    const char* from = head_of(x, at.b, item == 0 ? at.h : at.h * call.group + item - 1) + start * x.token;
    stage<C, DK, sweep_threads>(rows, from, x.token, n, call.dk, x.whole, call.type);
    if constexpr (gates == Gates::channel) {
        if (item > 0) return;
        const bool whole = call.dk % 4 == 0 && reinterpret_cast<uintptr_t>(call.g) % 16 == 0;
        const float* g = call.g + (at.bh * call.N + start) * call.gates;
        stage<C, DK, sweep_threads>(log_gates, reinterpret_cast<const char*>(g), call.gates * int64_t{4}, n, call.dk,
                                    whole, Type::Float32);
    }
}

// Starts the copy of one of the matrices of a chunk, lower triangular, to rows of C + 4 floats. Blocks of 16×16 above
// the diagonal are left out.
template <int C>
__device__ __forceinline__ void stage_lower(float* to, const Part& p, int64_t bh, int chunk, int matrix) {
    const float* L = p.scores + (bh * p.chunks + chunk) * p.floats + matrix * C * C;
    for (int i = threadIdx.x; i < C * C / 4; i += sweep_threads) {
        const int t = i / (C / 4), c = i % (C / 4) * 4;
        if (c / 16 <= t / 16) cp_async<16>(to + t * (C + 4) + c, L + t * C + c, true);
    }
}

// A staged tile in Float32 as the products want it: k or q, with a gate per channel e ⊙ k or e ⊙ q. For keys e and
// w ⊙ k are written too, for queries e is read. log_gates: staged, 0 past the end.
template <int DK, int C, Gates gates>
__device__ __forceinline__ void convert_item(float* X, float* e, float* weighted_k, const void* rows,
                                             const void* log_gates, bool keys, Type type) {
    if constexpr (gates != Gates::channel) {
        convert_tile<C * DK, sweep_threads>(X, rows, type);
    } else {
        for (int c = threadIdx.x; c < DK; c += sweep_threads) {
            if (keys) {
                const float* g = static_cast<const float*>(log_gates);
                running_products<C>(
                    [&](int t) { return expf(g[t * DK + c]); },
                    [&](int t, float product) {
                        e[t * DK + c] = product;
                        X[t * DK + c] = product * element(rows, t * DK + c, type);
                    },
                    [&](int t, float product) { weighted_k[t * DK + c] = product * element(rows, t * DK + c, type); });
            } else {
#pragma unroll
                for (int t = 0; t < C; ++t) X[t * DK + c] = e[t * DK + c] * element(rows, t * DK + c, type);
            }
        }
    }
}

// With a gate per head: e and w of the rows 16 i + rg of a chunk, and e of its last token.
template <int C>
__device__ __forceinline__ void head_gates(float (&e)[C / 16], float (&w)[C / 16], float& last, const Part& p,
                                           int64_t bh, int chunk, int rg) {
    const float* at = p.scores + (bh * p.chunks + chunk + 1) * p.floats - 2 * C;
#pragma unroll
    for (int i = 0; i < C / 16; ++i) e[i] = at[i * 16 + rg], w[i] = at[C + i * 16 + rg];
    last = at[C - 1];
}

// The decay of a thread's part of a state over a whole chunk: S ← e_last ⊙ S; channel_e: with a gate per channel,
// [C][DK].
template <int DK, int C, Gates gates>
__device__ __forceinline__ void decay_state(float (&S)[DK / 16][4], float last, const float* channel_e, int rg) {
    if constexpr (gates != Gates::none) {
#pragma unroll
        for (int i = 0; i < DK / 16; ++i) {
            const float f = gates == Gates::channel ? channel_e[(C - 1) * DK + i / 4 * 64 + rg * 4 + i % 4] : last;
            S[i][0] *= f, S[i][1] *= f, S[i][2] *= f, S[i][3] *= f;
        }
    }
}

}  // namespace causeway::gpu::gated
