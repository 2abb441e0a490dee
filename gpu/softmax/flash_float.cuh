// Flash attention for Float32 on FMA units.
#pragma once

#include "gpu/softmax/again.cuh"
#include "gpu/softmax/float_tile.cuh"

namespace causeway::gpu::softmax {

template <int D>
struct FloatTile {
    static constexpr int threads = 256, BM = D == 256 ? 32 : 64, BN = D == 256 ? 32 : 64, TM = BM / 16, TN = BN / 16,
                         C = D / 64;
    static constexpr int row = D + 4, score_row = BN + 4;  // floats: eight rows side by side lie in different banks
    static constexpr int floats = (BM + BN) * row + BM * score_row, bytes = 4 * floats;
    static constexpr int per_multiprocessor = 2;
};

// `rows` rows from row(i) times a factor: `columns` columns, then zeros to D; zeros from row `count` on.
template <int D, class Row>
__device__ void load_floats(float* to, int rows, int32_t count, int columns, bool aligned, float factor, Row&& row) {
    using T = FloatTile<D>;
    for (int at = threadIdx.x; at < rows * (D / 4); at += T::threads) {
        const int i = at / (D / 4), e = at % (D / 4) * 4;
        float4 f = make_float4(0, 0, 0, 0);
        if (i < count && e < columns) {
            const float* from = row(i) + e;
            if (aligned) {
                f = *reinterpret_cast<const float4*>(from);
            } else {
                f.x = from[0];
                if (e + 1 < columns) f.y = from[1];
                if (e + 2 < columns) f.z = from[2];
                if (e + 3 < columns) f.w = from[3];
            }
        }
        *reinterpret_cast<float4*>(to + i * T::row + e) =
            make_float4(f.x * factor, f.y * factor, f.z * factor, f.w * factor);
    }
}

// The rows and columns of a thread.
template <int D>
struct FloatThread {
    using T = FloatTile<D>;
    int x = threadIdx.x % 16, y = threadIdx.x / 16;
    float o[T::TM][T::C][4] = {}, max[T::TM], sum[T::TM];
    int32_t limit[T::TM];

    // The scores of keys j ... to weights p [row][key] in shared memory, keys from `last` on left out.
    __device__ __forceinline__ void weigh(float (&s)[T::TM][T::TN], float* p, int32_t j, int32_t last, float scale) {
#pragma unroll
        for (int i = 0; i < T::TM; ++i) {
            float now = max[i], added = 0;
#pragma unroll
            for (int n = 0; n < T::TN; ++n) {
                if (j + x + 16 * n >= min(limit[i], last)) s[i][n] = minus_infinity;
                now = fmaxf(now, s[i][n]);
            }
            now = max_of_sixteen(now);
            const float shift = shift_of(now, scale), back = exp2f(__fmul_rn(max[i], scale) - shift);
            max[i] = now;
#pragma unroll
            for (int n = 0; n < T::TN; ++n) {
                const float w = exp2f(fmaf(s[i][n], scale, -shift));
                p[(y + 16 * i) * T::score_row + x + 16 * n] = w;
                added += w;
            }
            sum[i] = fmaf(sum[i], back, added);
#pragma unroll
            for (int n = 0; n < T::C; ++n)
                o[i][n][0] *= back, o[i][n][1] *= back, o[i][n][2] *= back, o[i][n][3] *= back;
        }
    }
    // O += P V.
    __device__ __forceinline__ void add_values(const float* p, const float* v) {
#pragma unroll 2
        for (int e = 0; e < T::BN; e += 4) {
            float4 w[T::TM];
#pragma unroll
            for (int i = 0; i < T::TM; ++i)
                w[i] = *reinterpret_cast<const float4*>(p + (y + 16 * i) * T::score_row + e);
#pragma unroll
            for (int t = 0; t < 4; ++t) {
#pragma unroll
                for (int n = 0; n < T::C; ++n) {
                    const float4 value = *reinterpret_cast<const float4*>(v + (e + t) * T::row + 64 * n + 4 * x);
#pragma unroll
                    for (int i = 0; i < T::TM; ++i)
                        add_weighted(o[i][n], t == 0 ? w[i].x : t == 1 ? w[i].y : t == 2 ? w[i].z : w[i].w, value);
                }
            }
        }
    }
};

template <int D>
__global__ __launch_bounds__(FloatTile<D>::threads,
                             FloatTile<D>::per_multiprocessor) void flash_float(const __grid_constant__ Params c) {
    using T = FloatTile<D>;
    extern __shared__ __align__(16) float floats[];
    float *q = floats, *kv = q + T::BM * T::row, *p = kv + T::BN * T::row;
    FloatThread<D> t;
    const Block<float, T::BM> block(c);
    const auto [first, last, full] = block.keys();
    if (c.splits > 1) let_merging_start();

    const float scale = fabsf(c.scale_log2);
    load_floats<D>(q, T::BM, c.rows - block.row0, c.d, c.aligned_q, c.scale_log2 < 0 ? -1.0f : 1.0f,
                   [&](int i) { return block.bh.q(block.row0 + i); });
#pragma unroll
    for (int i = 0; i < T::TM; ++i) {
        t.max[i] = minus_infinity, t.sum[i] = 0;
        t.limit[i] = block.bh.limit(min(block.row0 + t.y + 16 * i, c.rows - 1));
    }
    for (int32_t j = first; j < last; j += T::BN) {
        __syncthreads();
        load_floats<D>(kv, T::BN, last - j, c.d, c.aligned_kv, 1.0f, [&](int i) { return block.bh.k(j + i); });
        __syncthreads();
        float s[T::TM][T::TN] = {};
#pragma unroll 4
        for (int e = 0; e < D; e += 4) add_dots(s, q, kv, T::row, t.y, t.x, e);
        t.weigh(s, p, j, last, scale);
        __syncthreads();
        load_floats<D>(kv, T::BN, last - j, c.dv, c.aligned_kv, 1.0f, [&](int i) { return block.bh.v(j + i); });
        __syncthreads();
        t.add_values(p, kv);
    }
#pragma unroll
    for (int i = 0; i < T::TM; ++i) {
        const float sum = sum_of_sixteen(t.sum[i]);
        const int32_t row = block.row0 + t.y + 16 * i;
        if (row >= c.rows) continue;
        float lse2;
        const float inverse = finish(__fmul_rn(t.max[i], scale), sum, lse2);
        store_columns(c.splits > 1 ? block.partial(row) : block.bh.o(row), t.o[i], inverse, c.dv, t.x);
        if (t.x == 0) block.bh.store_lse(block.split, row, lse2);
    }
    bool finite = true;
#pragma unroll
    for (int i = 0; i < T::TM; ++i) {
#pragma unroll
        for (int n = 0; n < T::C; ++n) finite = finite && are_finite(t.o[i][n]);
    }
    if (!__syncthreads_and(finite)) make_rows_again<float, T::BM>(c);
}

}  // namespace causeway::gpu::softmax
