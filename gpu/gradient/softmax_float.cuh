// The gradient of softmax attention for Float32 on FMA units; softmax_rows.cuh has the formulas.
#pragma once

#include "gpu/gradient/softmax_again.cuh"
#include "gpu/softmax/float_tile.cuh"

namespace causeway::gpu::softmax {

// As many own rows as rows that pass by.
template <int D>
struct FloatGradientTile {
    static constexpr int threads = 256, B = D == 256 ? 16 : 32, T = B / 16, C = D / 64;
    static constexpr int row = D + 4, score_row = B + 4;
    static constexpr int bytes = 4 * (4 * B * row + 2 * B * score_row + 3 * B);
    // Blocks that a multiprocessor is to hold, of dq_float and of dkv_float, as many as fit without what they call at
    // the end, which would take more registers than they do.
    static constexpr int dq_blocks = D == 64 ? 5 : D == 128 ? 2 : 3, dkv_blocks = D == 64 ? 3 : 2;
};

// Tiles in shared memory, and the rows and columns of a thread (gpu/softmax/float_tile.cuh).
template <int D>
struct FloatGradientTiles {
    using T = FloatGradientTile<D>;
    using Sums = float[T::T][T::C][4];
    float *own_a, *own_b, *other_a, *other_b, *weights, *gradients;
    RowSums sums;
    int x = threadIdx.x % 16, y = threadIdx.x / 16;

    __device__ explicit FloatGradientTiles(float* memory)
        : own_a(memory),
          own_b(own_a + T::B * T::row),
          other_a(own_b + T::B * T::row),
          other_b(other_a + T::B * T::row),
          weights(other_b + T::B * T::row),
          gradients(weights + T::B * T::score_row),
          sums{gradients + T::B * T::score_row, gradients + T::B * T::score_row + T::B,
               reinterpret_cast<int32_t*>(gradients + T::B * T::score_row + 2 * T::B)} {}

    __device__ void load_queries(float* q, float* dO, const GradientRows<float>& in, int32_t row0,
                                 int32_t count) const {
        load(q, in.c.d, count, [&](int i) { return in.q(row0 + i); });
        load(dO, in.c.dv, count, [&](int i) { return in.dO(row0 + i); });
        sums.load<T::B>(in, row0, count);
    }
    __device__ void load_keys(float* k, float* v, const GradientRows<float>& in, int32_t key0, int32_t count) const {
        load(k, in.c.d, count, [&](int i) { return in.k(key0 + i); });
        load(v, in.c.dv, count, [&](int i) { return in.v(key0 + i); });
    }
    // P and dS to shared memory: [own][other].
    template <bool own_rows>
    __device__ void make_weights(float scale_log2, int32_t key0) const {
        float s[T::T][T::T] = {}, dp[T::T][T::T] = {};
        for (int e = 0; e < D; e += 4) {
            add_dots(s, own_a, other_a, T::row, y, x, e);
            add_dots(dp, own_b, other_b, T::row, y, x, e);
        }
#pragma unroll
        for (int i = 0; i < T::T; ++i) {
#pragma unroll
            for (int n = 0; n < T::T; ++n) {
                const int own = y + 16 * i, other = x + 16 * n, row = own_rows ? own : other;
                const bool sees = key0 + (own_rows ? other : own) < sums.limit[row];
                const float p = sees ? exp2f(fmaf(s[i][n], scale_log2, -sums.lse2[row])) : 0.0f;
                weights[own * T::score_row + other] = p;
                gradients[own * T::score_row + other] = sees ? p * (dp[i][n] - sums.D[row]) : 0.0f;
            }
        }
    }
    static __device__ bool finite(const Sums& x) {
        bool all = true;
#pragma unroll
        for (int i = 0; i < T::T; ++i) {
#pragma unroll
            for (int n = 0; n < T::C; ++n) all = all && are_finite(x[i][n]);
        }
        return all;
    }
    // out[own rows y + 16 i][columns 64 n + 4 x ...] += by · other.
    __device__ void add(Sums& out, const float* by, const float* other) const {
        for (int j = 0; j < T::B; ++j) {
#pragma unroll
            for (int n = 0; n < T::C; ++n) {
                const float4 f = *reinterpret_cast<const float4*>(other + j * T::row + 64 * n + 4 * x);
#pragma unroll
                for (int i = 0; i < T::T; ++i) add_weighted(out[i][n], by[(y + 16 * i) * T::score_row + j], f);
            }
        }
    }
    template <class Row>
    __device__ void store(const Sums& out, float factor, int columns, int32_t count, Row&& row) const {
#pragma unroll
        for (int i = 0; i < T::T; ++i) {
            if (y + 16 * i < count) store_columns(row(y + 16 * i), out[i], factor, columns, x);
        }
    }

private:
    template <class Row>
    __device__ void load(float* to, int columns, int32_t count, Row&& row) const {
        for (int at = threadIdx.x; at < T::B * D; at += T::threads) {
            const int i = at / D, e = at % D;
            to[i * T::row + e] = i < count && e < columns ? row(i)[e] : 0.0f;
        }
    }
};

template <int D>
__global__ __launch_bounds__(FloatGradientTile<D>::threads,
                             FloatGradientTile<D>::dq_blocks) void dq_float(const __grid_constant__ Gradient g) {
    using T = FloatGradientTile<D>;
    extern __shared__ __align__(16) float floats[];
    const FloatGradientTiles<D> t(floats);
    const Params& c = g.c;
    const QueryBlock<float, T::B> block(g);
    const GradientRows<float>& in = block.in;
    t.load_queries(t.own_a, t.own_b, in, block.row0, block.rows);
    typename FloatGradientTiles<D>::Sums dq = {};
    for (int32_t j = 0; j < block.last; j += T::B) {
        __syncthreads();
        t.load_keys(t.other_a, t.other_b, in, j, block.last - j);
        __syncthreads();
        t.template make_weights<true>(c.scale_log2, j);
        __syncthreads();
        t.add(dq, t.gradients, t.other_a);
    }
    t.store(dq, g.scale, c.d, block.rows, [&](int i) { return in.dq(block.row0 + i); });
    if (!__syncthreads_and(t.finite(dq))) make_dq_again<QueryBlock<float, T::B>>(g);
}

template <int D>
__global__ __launch_bounds__(FloatGradientTile<D>::threads,
                             FloatGradientTile<D>::dkv_blocks) void dkv_float(const __grid_constant__ Gradient g) {
    using T = FloatGradientTile<D>;
    extern __shared__ __align__(16) float floats[];
    const FloatGradientTiles<D> t(floats);
    const Params& c = g.c;
    const KeyBlock<float, T::B, 1> block(g);
    const GradientRows<float>& in = block.in;
    t.load_keys(t.own_a, t.own_b, in, block.key0, block.keys);
    typename FloatGradientTiles<D>::Sums dk = {}, dv = {};
    for (int32_t row0 = in.first_row(block.key0); row0 < c.rows; row0 += T::B) {
        __syncthreads();
        t.load_queries(t.other_a, t.other_b, in, row0, min(T::B, c.rows - row0));
        __syncthreads();
        t.template make_weights<false>(c.scale_log2, block.key0);
        __syncthreads();
        t.add(dk, t.gradients, t.other_a);
        t.add(dv, t.weights, t.other_b);
    }
    t.store(dk, g.scale, c.d, block.keys, [&](int i) { return in.dk(block.key0 + i); });
    t.store(dv, 1.0f, c.dv, block.keys, [&](int i) { return in.dv(block.key0 + i); });
    if (!__syncthreads_and(t.finite(dk) && t.finite(dv))) make_dkv_again<KeyBlock<float, T::B, 1>, max_width>(g);
}

}  // namespace causeway::gpu::softmax
