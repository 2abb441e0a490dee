// What gated_finish is made of: its shared memory, who has which elements, and the products between them.
#pragma once

#include "gpu/gated/chunks.hpp"
#include "gpu/gated/fma.cuh"
#include "gpu/gradient/gated_chunks.hpp"

namespace causeway::gpu::gradient {

using namespace gated;

constexpr int finish_threads = 128, finish_warps = finish_threads / 32;

template <int DK, int C, Gates gates>
struct FinishShared {
    static constexpr bool per_channel = gates == Gates::channel, per_head = gates == Gates::head;
    static constexpr int slab = DK == 256 || per_channel ? 16 : 32;  // columns of v at a time
    static constexpr int pitch = slab + 4, square = C + 4;           // floats of a row of a slab, of a C×C matrix
    float S[DK * pitch], E[DK * pitch];                              // of the states before and after
    float X[C * pitch], U[C * pitch];
    float K[C * DK], Q[C * DK];
    float P[C * square];  // dA, then dM; times Λ unless there is one for each channel
    float lambda[per_channel ? 1 : C * square];
    float Z[per_head ? C * square : 1], row[C], column[C], e[C], w[C], through[per_head ? DK : 1];
    float a[per_channel ? C * DK : 1], channel_e[per_channel ? C * DK : 1], channel_w[per_channel ? C * DK : 1];
    float dg[per_channel ? finish_warps * C * DK : 1];  // a part for each warp
    float beta[C];
};

// A thread's elements of matrices of C rows. Warp w has the tokens w + 4 i; lane l of it has of a row of DK floats the
// channels l + 32 m, and of a C×C matrix the elements (tile_row(i), tile_column).
template <int DK, int C, Gates gates>
struct FinishTiles {
    using Shared = FinishShared<DK, C, gates>;
    static constexpr int T = C / finish_warps, M = DK / 32, tiles = C * C / finish_threads, across = 32 / C;
    static constexpr int slab = Shared::slab, pitch = Shared::pitch, square = Shared::square;
    using Rows = float[T][M];
    using Tile = float[tiles];

    Shared& s;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, tile_column = lane % C;

    __device__ __forceinline__ int token(int i) const { return warp + finish_warps * i; }
    __device__ __forceinline__ int tile_row(int i) const { return warp + finish_warps * (i * across + lane / C); }
    __device__ __forceinline__ int channel(int m) const { return lane + 32 * m; }

    __device__ __forceinline__ float e_of(int t, int m) const {
        if constexpr (gates == Gates::none) return 1.0f;
        else if constexpr (gates == Gates::head) return s.e[t];
        else return s.channel_e[t * DK + channel(m)];
    }
    __device__ __forceinline__ float w_of(int t, int m) const {
        if constexpr (gates == Gates::none) return 1.0f;
        else if constexpr (gates == Gates::head) return s.w[t];
        else return s.channel_w[t * DK + channel(m)];
    }

    // to[i][m] += row token(i) of X times row channel(m) of a slab of a state.
    __device__ __forceinline__ void add_products(Rows& to, const float* X, const float* state) const {
#pragma unroll 1
        for (int c = 0; c < slab; c += 4) {
            float4 f[M];
#pragma unroll
            for (int m = 0; m < M; ++m) f[m] = *reinterpret_cast<const float4*>(state + channel(m) * pitch + c);
#pragma unroll
            for (int i = 0; i < T; ++i) {
                const float4 y = *reinterpret_cast<const float4*>(X + token(i) * pitch + c);
#pragma unroll
                for (int m = 0; m < M; ++m)
                    to[i][m] = fmaf(y.w, f[m].w, fmaf(y.z, f[m].z, fmaf(y.y, f[m].y, fmaf(y.x, f[m].x, to[i][m]))));
            }
        }
    }
    // to += X Uᵀ over the columns of a slab.
    __device__ __forceinline__ void add_tiles(Tile& to) const {
#pragma unroll 1
        for (int c = 0; c < slab; c += 4) {
            const float4 u = *reinterpret_cast<const float4*>(s.U + tile_column * pitch + c);
#pragma unroll
            for (int i = 0; i < tiles; ++i) {
                const float4 y = *reinterpret_cast<const float4*>(s.X + tile_row(i) * pitch + c);
                to[i] = fmaf(y.w, u.w, fmaf(y.z, u.z, fmaf(y.y, u.y, fmaf(y.x, u.x, to[i]))));
            }
        }
    }
    // P from a tile: what is above the diagonal, or (above = 1) on it, is 0. With a gate per head, Z grows by its
    // products with the scores.
    __device__ __forceinline__ void put_tiles(const Tile& tile, int above, const float* scores) const {
#pragma unroll
        for (int i = 0; i < tiles; ++i) {
            const int t = tile_row(i), j = tile_column;
            const bool there = t >= j + above;
            float f = there ? tile[i] : 0.0f;
            if constexpr (gates == Gates::head) s.Z[t * square + j] += there ? f * scores[t * C + j] : 0.0f;
            if constexpr (gates != Gates::channel) f *= s.lambda[t * square + j];
            s.P[t * square + j] = f;
        }
    }

    // to[i] += Σ_j P_ij (Λ ⊙) Y_j over j <= i, Y rows of DK floats.
    __device__ __forceinline__ void add_older(Rows& to, const float* Y) const {
        if constexpr (gates == Gates::channel) {
            for (int i = 0; i < T; ++i) {
                const int t = token(i);
                float decay[M], sum[M] = {};
#pragma unroll
                for (int m = 0; m < M; ++m) decay[m] = 1.0f;
                for (int j = t; j >= 0; --j) {
                    const float f = s.P[t * square + j];
#pragma unroll
                    for (int m = 0; m < M; ++m) {
                        sum[m] = fmaf(f * decay[m], Y[j * DK + channel(m)], sum[m]);
                        decay[m] *= s.a[j * DK + channel(m)];
                    }
                }
                add_row(to, i, sum);
            }
        } else {
            add_matrix(to, Y, [&](int i, int j) { return s.P[token(i) * square + j]; });
        }
    }
    // to[i] += Σ_t P_ti (Λ ⊙) Y_t over t >= i.
    __device__ __forceinline__ void add_newer(Rows& to, const float* Y) const {
        if constexpr (gates == Gates::channel) {
            for (int i = 0; i < T; ++i) {
                const int j = token(i);
                float decay[M], sum[M] = {};
#pragma unroll
                for (int m = 0; m < M; ++m) decay[m] = 1.0f;
                for (int t = j; t < C; ++t) {
                    const float f = s.P[t * square + j];
#pragma unroll
                    for (int m = 0; m < M; ++m) {
                        if (t > j) decay[m] *= s.a[t * DK + channel(m)];
                        sum[m] = fmaf(f * decay[m], Y[t * DK + channel(m)], sum[m]);
                    }
                }
                add_row(to, i, sum);
            }
        } else {
            add_matrix(to, Y, [&](int i, int t) { return s.P[t * square + token(i)]; });
        }
    }

    // With a gate per channel: what row t of Y, through P and through the state (from_state · e ⊙ Y), moves of the
    // gates s <= t.
    __device__ __forceinline__ void add_gates(const Rows& from_state, const float* Y) const {
        if constexpr (gates == Gates::channel) {
#pragma unroll
            for (int m = 0; m < M; ++m) {
                const int c = channel(m);
                float* dg = s.dg + warp * C * DK + c;
#pragma unroll
                for (int i = 0; i < T; ++i) {
                    const int t = token(i);
                    const float y = Y[t * DK + c];
                    float z[C], decay = 1.0f;
#pragma unroll
                    for (int j = C - 1; j >= 0; --j) {
                        z[j] = j <= t ? s.P[t * square + j] * decay * y * s.K[j * DK + c] : 0.0f;
                        if (j <= t) decay *= s.a[j * DK + c];
                    }
                    float older = from_state[i][m] * s.channel_e[t * DK + c] * y;
#pragma unroll
                    for (int j = 0; j < C; ++j) {
                        if (j <= t) dg[j * DK] += older;
                        older += z[j];
                    }
                }
            }
        }
    }

private:
    // to[row] += sum, for a row that is no constant: registers have no addresses.
    __device__ __forceinline__ static void add_row(Rows& to, int row, const float (&sum)[M]) {
#pragma unroll
        for (int k = 0; k < T; ++k) {
            if (k != row) continue;
#pragma unroll
            for (int m = 0; m < M; ++m) to[k][m] += sum[m];
        }
    }
    // to[i] += Σ_j factor(i, j) Y_j.
    template <class F>
    __device__ __forceinline__ void add_matrix(Rows& to, const float* Y, const F& factor) const {
#pragma unroll 2
        for (int j = 0; j < C; ++j) {
            float y[M];
#pragma unroll
            for (int m = 0; m < M; ++m) y[m] = Y[j * DK + channel(m)];
#pragma unroll
            for (int i = 0; i < T; ++i) {
                const float f = factor(i, j);
#pragma unroll
                for (int m = 0; m < M; ++m) to[i][m] = fmaf(f, y[m], to[i][m]);
            }
        }
    }
};

}  // namespace causeway::gpu::gradient
