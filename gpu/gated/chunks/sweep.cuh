// What the walks through the chunks of a head share, forwards (sweep.cu) and backwards (gpu/gradient/gated_chunks):
// thread blocks of 32 columns of a state, tiles of k and q with their gates, and C×C matrices.
#pragma once

#include "gpu/gated/chunks.hpp"
#include "gpu/gated/fma.cuh"
#include "gpu/kit/ptx.cuh"
#include "gpu/kit/tf32.cuh"

namespace causeway::gpu::gated {

constexpr int sweep_columns = 32;
constexpr int careful_threads = 128;  // of those that go once more, carefully, on FMA units
__device__ __forceinline__ void careful_barrier() { ptx::named_barrier_sync(1, careful_threads); }

// Rows of DK floats in shared memory, for FMA units and for tensor cores.
template <int DK>
struct PlainRows {
    static __device__ __forceinline__ int at(int row, int c) { return row * DK + c; }
};
template <int DK>
struct SwizzledRows {
    static __device__ __forceinline__ int at(int row, int c) { return row * DK + tf32::swizzled(row, c); }
};

// Which columns of which state a thread has on FMA units, 8 to a warp.
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

// The rows of a chunk of k (item 0), or of the item-th of its heads of q.
__device__ __forceinline__ const Operand& operand_of(const Call& call, int item) { return item == 0 ? call.k : call.q; }
template <int C, class Place>
__device__ __forceinline__ const char* rows_of(const Part& p, const Place& at, int chunk, int item) {
    const Operand& x = operand_of(p.call, item);
    const char* head = head_of(x, at.b, item == 0 ? at.h : at.h * p.call.group + item - 1);
    return head + (p.first + int64_t{chunk} * C) * x.token;
}

// Starts the copy of such a tile, and, with a gate per channel, of the log gates of a tile of k.
template <int DK, int C, Gates gates, int threads, class Place>
__device__ __forceinline__ void stage_item(float4* rows, float4* log_gates, const Part& p, const Place& at, int chunk,
                                           int item) {
    const Call& call = p.call;
    const int n = tokens_of<C>(p, chunk);
    const Operand& x = operand_of(call, item);
    stage<C, DK, threads>(rows, rows_of<C>(p, at, chunk, item), x.token, n, call.dk, x.whole, call.type);
    if constexpr (gates == Gates::channel) {
        if (item > 0) return;
        const bool whole = call.dk % 4 == 0 && reinterpret_cast<uintptr_t>(call.g) % 16 == 0;
        const float* g = call.g + (at.bh * call.N + p.first + int64_t{chunk} * C) * call.gates;
        stage<C, DK, threads>(log_gates, reinterpret_cast<const char*>(g), call.gates * int64_t{4}, n, call.dk, whole,
                              Type::Float32);
    }
}

// Starts the copy of one of the matrices of a chunk, lower triangular, to rows of C + 4 floats. Blocks of 16×16 above
// the diagonal are left out.
template <int C, int threads>
__device__ __forceinline__ void stage_lower(float* to, const Part& p, int64_t bh, int chunk, int matrix) {
    const float* L = p.scores + (bh * p.chunks + chunk) * p.floats + matrix * C * C;
#pragma unroll
    for (int j = 0; j < (C * C / 4 + threads - 1) / threads; ++j) {
        const int i = threadIdx.x + j * threads, t = i / (C / 4), c = i % (C / 4) * 4;
        if (i < C * C / 4 && c / 16 <= t / 16) cp_async<16>(to + t * (C + 4) + c, L + t * C + c, true);
    }
}

// n of C rows of dk elements of any type, the first at `rows`, as rows of DK floats in shared memory, zeros behind.
template <int DK, int C, int threads, class Rows>
__device__ __forceinline__ void load_tile(float* to, const char* rows, const Operand& from, int n, const Call& call) {
    const auto by = [&](Type type, auto&& quad_at) {
        move<C * DK / 4, threads>([&](int i) { return quad_at(i / (DK / 4), i % (DK / 4) * 4); },
                                  [&](int i, RawQuad raw) {
                                      *reinterpret_cast<float4*>(to + Rows::at(i / (DK / 4), i % (DK / 4) * 4)) =
                                          value(raw, type);
                                  });
    };
    // Whole tiles without a branch for each piece.
    const auto whole_by = [&](Type type) {
        by(type, [&](int row, int c) { return raw_quad(rows + row * from.token, c, type); });
    };
    if (n < C || call.dk < DK || !from.quads) {
        by(call.type, [&](int row, int c) {
            return row < n ? raw_quad_within(rows + row * from.token, c, call.dk, from.quads, call.type)
                           : RawQuad{0, 0, 0, 0};
        });
    } else if (call.type == Type::Float32) {
        whole_by(Type::Float32);
    } else if (call.type == Type::BFloat16) {
        whole_by(Type::BFloat16);
    } else {
        whole_by(Type::Float16);
    }
}

// A staged tile of C rows as Float32.
template <int DK, int C, int threads, class Rows>
__device__ __forceinline__ void convert_tile(float* to, const void* from, Type type) {
    by_type(type, [&](Type t) {
#pragma unroll 4
        for (int i = 4 * threadIdx.x; i < C * DK; i += 4 * threads)
            *reinterpret_cast<float4*>(to + Rows::at(i / DK, i % DK)) = quad(from, i, t);
    });
}

// A staged tile in Float32 as the products want it: k or q, with a gate per channel e ⊙ k or e ⊙ q. For keys e and
// w ⊙ k are written too, for queries e is read; e has plain rows. log_gates: staged, 0 past the end.
template <int DK, int C, Gates gates, int threads, class Rows>
__device__ __forceinline__ void convert_item(float* X, float* e, float* weighted_k, const void* rows,
                                             const void* log_gates, bool keys, Type type) {
    if constexpr (gates != Gates::channel) {
        convert_tile<DK, C, threads, Rows>(X, rows, type);
    } else {
        for (int c = threadIdx.x; c < DK; c += threads) {
            if (keys) {
                const float* g = static_cast<const float*>(log_gates);
                running_products<C>([&](int t) { return expf(g[t * DK + c]); },
                                    [&](int t, float product) {
                                        e[t * DK + c] = product;
                                        X[Rows::at(t, c)] = product * element(rows, t * DK + c, type);
                                    },
                                    [&](int t, float product) {
                                        weighted_k[Rows::at(t, c)] = product * element(rows, t * DK + c, type);
                                    });
            } else {
#pragma unroll
                for (int t = 0; t < C; ++t) X[Rows::at(t, c)] = e[t * DK + c] * element(rows, t * DK + c, type);
            }
        }
    }
}

// With a gate per head: e of the last token of a chunk.
template <int C>
__device__ __forceinline__ float last_gate(const Part& p, int64_t bh, int chunk) {
    return p.scores[(bh * p.chunks + chunk + 1) * p.floats - C - 1];
}

// With a gate per head: e and w of the rows 16 i + rg of a chunk, and e of its last token.
template <int C>
__device__ __forceinline__ void head_gates(float (&e)[C / 16], float (&w)[C / 16], float& last, const Part& p,
                                           int64_t bh, int chunk, int rg) {
    const float* at = p.scores + (bh * p.chunks + chunk + 1) * p.floats - 2 * C;
#pragma unroll
    for (int i = 0; i < C / 16; ++i) e[i] = at[i * 16 + rg], w[i] = at[C + i * 16 + rg];
    last = last_gate<C>(p, bh, chunk);
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
