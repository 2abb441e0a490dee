// The gradient of softmax attention for 16-bit types on tensor cores; softmax_rows.cuh has the formulas.
#pragma once

#include "gpu/gradient/softmax_again.cuh"
#include "gpu/softmax/tile.cuh"

namespace causeway::gpu::softmax {

template <int D>
struct GradientTile {
    static constexpr int threads = 128, own = 64, other = 32;  // rows that the block has, rows that pass by
    static constexpr int columns = D < 128 ? D : 128, parts = D / columns;  // of dk and dv in a block
    static constexpr int bytes = 2 * (own + other) * D * 2 + 3 * other * 4;
};

// The tiles of a block in shared memory, and of a warp of it, which has 16 own rows: a lane has the rows lane / 4 and
// lane / 4 + 8, and of what it multiplies with the columns 8 n + 2 (lane % 4) and the next one.
template <class E, int D>
struct GradientTiles {
    using T = GradientTile<D>;
    static constexpr int NS = T::other / 8;
    E *own_a, *own_b, *other_a, *other_b;
    int lane = threadIdx.x % 32, pair = 2 * (lane % 4), own = 16 * (threadIdx.x / 32);

    __device__ __forceinline__ explicit GradientTiles(unsigned char* memory)
        : own_a(reinterpret_cast<E*>(memory)),
          own_b(own_a + T::own * D),
          other_a(own_b + T::own * D),
          other_b(other_a + T::other * D) {}

    __device__ __forceinline__ RowSums sums() const {
        float* const lse2 = reinterpret_cast<float*>(other_b + T::other * D);
        return {lse2, lse2 + T::other, reinterpret_cast<int32_t*>(lse2 + 2 * T::other)};
    }
    // This thread's own row, i = 0 or 1, counted from the block's first.
    __device__ __forceinline__ int row(int i) const { return own + lane / 4 + 8 * i; }

    template <int rows>
    __device__ __forceinline__ static void load_queries(E* q, E* dO, const GradientRows<E>& in, int32_t row0,
                                                        int32_t count) {
        load_rows<E, D, rows, T::threads>(q, in.c.d, in.c.aligned_q, count, [&](int i) { return in.q(row0 + i); });
        load_rows<E, D, rows, T::threads>(dO, in.c.dv, in.g.aligned_dO, count, [&](int i) { return in.dO(row0 + i); });
    }
    template <int rows>
    __device__ __forceinline__ static void load_keys(E* k, E* v, const GradientRows<E>& in, int32_t key0,
                                                     int32_t count) {
        load_rows<E, D, rows, T::threads>(k, in.c.d, in.c.aligned_kv, count, [&](int i) { return in.k(key0 + i); });
        load_rows<E, D, rows, T::threads>(v, in.c.dv, in.c.aligned_kv, count, [&](int i) { return in.v(key0 + i); });
    }
    // Of this warp's rows and all rows that pass by: scores, and gradients of weights.
    __device__ __forceinline__ void multiply(float (&s)[NS][4], float (&dp)[NS][4]) const {
#pragma unroll
        for (int ks = 0; ks < D / 16; ++ks) {
            uint32_t a[4];
            load_a<D>(a, ptx::shared_address(own_a), own, ks);
            add_scores<E, D>(s, a, ptx::shared_address(other_a), 0, ks);
            load_a<D>(a, ptx::shared_address(own_b), own, ks);
            add_scores<E, D>(dp, a, ptx::shared_address(other_b), 0, ks);
        }
    }
};

// dq of 64 rows: K and V pass by.
template <class E, int D>
__global__ __launch_bounds__(GradientTile<D>::threads) void dq_mma(const __grid_constant__ Gradient g) {
    using T = GradientTile<D>;
    using Tiles = GradientTiles<E, D>;
    extern __shared__ __align__(128) unsigned char memory[];
    const Tiles t(memory);
    const Params& c = g.c;
    const QueryBlock<E, T::own> block(g);
    const GradientRows<E>& in = block.in;
    Tiles::template load_queries<T::own>(t.own_a, t.own_b, in, block.row0, block.rows);
    float dq[D / 8][4] = {}, lse2[2], sum[2];
    int32_t limit[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int32_t row = min(block.row0 + t.row(i), c.rows - 1);
        lse2[i] = g.lse2[in.at(row)], sum[i] = g.D[in.at(row)], limit[i] = in.limit(row);
    }
    for (int32_t j = 0; j < block.last; j += T::other) {
        __syncthreads();
        Tiles::template load_keys<T::other>(t.other_a, t.other_b, in, j, min(T::other, block.last - j));
        cp_async_commit();
        cp_async_wait<0>();
        __syncthreads();
        float s[Tiles::NS][4] = {}, dp[Tiles::NS][4] = {};
        t.multiply(s, dp);
        const bool mask = j + T::other > min(block.full, block.last);
#pragma unroll
        for (int n = 0; n < Tiles::NS; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const float p = ptx::ex2_approx(fmaf(s[n][e], c.scale_log2, -lse2[e / 2]));
                s[n][e] = mask && j + 8 * n + t.pair + e % 2 >= limit[e / 2] ? 0.0f : p * (dp[n][e] - sum[e / 2]);
            }
        }
        add_weighted<E, D>(dq, s, ptx::shared_address(t.other_a), 0);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int32_t row = block.row0 + t.row(i);
        if (row >= c.rows) continue;
        E* to = in.dq(row);
#pragma unroll
        for (int n = 0; n < D / 8; ++n)
            store_pair(to, 8 * n + t.pair, c.d, dq[n][2 * i] * g.scale, dq[n][2 * i + 1] * g.scale);
    }
    bool finite = true;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) finite = finite && are_finite(dq[n]);
    if (!__syncthreads_and(finite)) make_dq_again<QueryBlock<E, T::own>>(g);
}

// dk and dv of 64 keys, up to 128 columns: Q and dO pass by. Scores with keys down and queries across, so that they are
// A operands.
template <class E, int D>
__global__ __launch_bounds__(GradientTile<D>::threads) void dkv_mma(const __grid_constant__ Gradient g) {
    using T = GradientTile<D>;
    using Tiles = GradientTiles<E, D>;
    constexpr int NO = T::columns / 8;
    extern __shared__ __align__(128) unsigned char memory[];
    const Tiles t(memory);
    const RowSums sums = t.sums();
    const Params& c = g.c;
    const KeyBlock<E, T::own, T::parts> block(g);
    const GradientRows<E>& in = block.in;
    const int32_t column0 = block.part * T::columns;
    Tiles::template load_keys<T::own>(t.own_a, t.own_b, in, block.key0, block.keys);
    float dk[NO][4] = {}, dv[NO][4] = {};
    for (int32_t row0 = in.first_row(block.key0); row0 < c.rows; row0 += T::other) {
        __syncthreads();
        const int32_t count = min(T::other, c.rows - row0);
        Tiles::template load_queries<T::other>(t.other_a, t.other_b, in, row0, count);
        cp_async_commit();
        sums.load<T::other>(in, row0, count);
        cp_async_wait<0>();
        __syncthreads();
        float s[Tiles::NS][4] = {}, dp[Tiles::NS][4] = {};
        t.multiply(s, dp);
#pragma unroll
        for (int n = 0; n < Tiles::NS; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int i = 8 * n + t.pair + e % 2;
                const bool sees = block.key0 + t.row(e / 2) < sums.limit[i];
                const float p = sees ? ptx::ex2_approx(fmaf(s[n][e], c.scale_log2, -sums.lse2[i])) : 0.0f;
                s[n][e] = p, dp[n][e] = sees ? p * (dp[n][e] - sums.D[i]) : 0.0f;
            }
        }
        add_weighted<E, D>(dv, s, ptx::shared_address(t.other_b), 0, column0);
        add_weighted<E, D>(dk, dp, ptx::shared_address(t.other_a), 0, column0);
    }
    cp_async_wait<0>();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int32_t key = block.key0 + t.row(i);
        if (key >= c.M) continue;
        E *to_k = in.dk(key), *to_v = in.dv(key);
#pragma unroll
        for (int n = 0; n < NO; ++n) {
            const int column = column0 + 8 * n + t.pair;
            store_pair(to_k, column, c.d, dk[n][2 * i] * g.scale, dk[n][2 * i + 1] * g.scale);
            store_pair(to_v, column, c.dv, dv[n][2 * i], dv[n][2 * i + 1]);
        }
    }
    bool finite = true;
#pragma unroll
    for (int n = 0; n < NO; ++n) finite = finite && are_finite(dk[n]) && are_finite(dv[n]);
    if (!__syncthreads_and(finite)) make_dkv_again<KeyBlock<E, T::own, T::parts>, T::columns>(g);
}

}  // namespace causeway::gpu::softmax
