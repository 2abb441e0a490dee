// Flash attention for 16-bit types on the tensor cores that every device from sm_80 on has.
#pragma once

#include "gpu/softmax/again.cuh"
#include "gpu/softmax/tile.cuh"

namespace causeway::gpu::softmax {

// KW = 1: each warp has 16 rows and all keys of a tile; KW > 1: the warps share 16 rows and have 1/KW of the keys each.
template <int D, int KW>
struct MmaTile {
    static constexpr int warps = KW == 1 ? 4 : KW, threads = 32 * warps, BM = KW == 1 ? 64 : 16,
                         BN = D == 256 ? 32 : 64;
    static constexpr bool hold_q =
        D <= 128;  // its fragments stay in registers; on the way it lies where the second tile of keys will
    static constexpr int kv_bytes = BN * D * 2, q_at = hold_q ? 2 * kv_bytes : 4 * kv_bytes;
    static constexpr int bytes = 4 * kv_bytes + (hold_q ? 0 : BM * D * 2);
    static constexpr int per_multiprocessor = D == 64 ? 4 : D == 128 && KW > 1 ? 3 : 2;
};

// What a warp has of its 16 rows: a lane has the rows lane / 4 and lane / 4 + 8, and of each the columns 8 n + 2 (lane
// % 4) and the next one.
template <class E, int D, int KW>
struct MmaWarp {
    using T = MmaTile<D, KW>;
    static constexpr int own_keys = T::BN / KW, NS = own_keys / 8;

    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, quad = lane / 4, pair = 2 * (lane % 4);
    int own_row = KW == 1 ? 16 * warp : 0, own_key = KW == 1 ? 0 : own_keys * warp;
    float o[D / 8][4] = {}, max[2] = {minus_infinity, minus_infinity}, sum[2] = {};
    int32_t limit[2];

    __device__ __forceinline__ void mask(float (&s)[NS][4], int32_t j, int32_t last) const {
#pragma unroll
        for (int n = 0; n < NS; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                if (j + own_key + 8 * n + pair + e % 2 >= min(limit[e / 2], last)) s[n][e] = minus_infinity;
            }
        }
    }
    // Scores to weights; what is summed so far is multiplied by what the larger maximum asks for.
    __device__ __forceinline__ void weigh(float (&s)[NS][4], float scale) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float now = max[i];
#pragma unroll
            for (int n = 0; n < NS; ++n) now = fmaxf(now, fmaxf(s[n][2 * i], s[n][2 * i + 1]));
            now = max_of_four(now);
            const float shift = shift_of(now, scale), back = ptx::ex2_approx(__fmul_rn(max[i], scale) - shift);
            max[i] = now;
            sum[i] *= back;
#pragma unroll
            for (int n = 0; n < NS; ++n) {
#pragma unroll
                for (int e = 2 * i; e < 2 * i + 2; ++e)
                    s[n][e] = ptx::ex2_approx(fmaf(s[n][e], scale, -shift)), sum[i] += s[n][e];
            }
#pragma unroll
            for (int n = 0; n < D / 8; ++n) o[n][2 * i] *= back, o[n][2 * i + 1] *= back;
        }
    }
};

// Two columns of a row of the output, or of the split's.
template <class E, int BM>
__device__ __forceinline__ void store_output(const Block<E, BM>& block, int32_t row, int column, float x, float y) {
    const Params& c = block.bh.c;
    if (c.splits > 1) {
        float* to = block.partial(row) + column;
        if (column < c.dv) to[0] = x;
        if (column + 1 < c.dv) to[1] = y;
    } else {
        store_pair(block.bh.o(row), column, c.dv, x, y);
    }
}

// KW = 1: the rows of a warp are its own.
template <class E, int D, int BM>
__device__ __forceinline__ void store_rows(const Block<E, BM>& block, const MmaWarp<E, D, 1>& w) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int32_t row = block.row0 + w.own_row + w.quad + 8 * i;
        if (row >= block.bh.c.rows) continue;
        float lse2;
        const float inverse = finish(w.max[i], w.sum[i], lse2);
#pragma unroll
        for (int n = 0; n < D / 8; ++n)
            store_output(block, row, 8 * n + w.pair, w.o[n][2 * i] * inverse, w.o[n][2 * i + 1] * inverse);
        if (w.lane % 4 == 0) block.bh.store_lse(block.split, row, lse2);
    }
}

// KW > 1: the warps' sums meet in shared memory, which keys and values have left.
template <class E, int D, int KW, int BM>
__device__ __forceinline__ void merge_warps(const Block<E, BM>& block, const MmaWarp<E, D, KW>& w, int rows,
                                            unsigned char* memory) {
    float* sums = reinterpret_cast<float*>(memory);  // [warp][row][D], then maxima and totals [warp][row]
    float *maxima = sums + KW * BM * D, *totals = maxima + KW * BM;
    static_assert(KW * BM * (D + 2) * 4 <= MmaTile<D, KW>::bytes);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int row = w.quad + 8 * i;
#pragma unroll
        for (int n = 0; n < D / 8; ++n) {
            sums[(w.warp * BM + row) * D + 8 * n + w.pair] = w.o[n][2 * i];
            sums[(w.warp * BM + row) * D + 8 * n + w.pair + 1] = w.o[n][2 * i + 1];
        }
        if (w.lane % 4 == 0) maxima[w.warp * BM + row] = w.max[i], totals[w.warp * BM + row] = w.sum[i];
    }
    __syncthreads();
    for (int at = threadIdx.x; at < rows * (D / 2); at += MmaTile<D, KW>::threads) {
        const int row = at / (D / 2), column = at % (D / 2) * 2;
        float now = minus_infinity, all = 0, x = 0, y = 0, lse2;
#pragma unroll
        for (int i = 0; i < KW; ++i) now = fmaxf(now, maxima[i * BM + row]);
#pragma unroll
        for (int i = 0; i < KW; ++i) {
            const float weight = ptx::ex2_approx(maxima[i * BM + row] - shift_of(now, 1.0f)),
                        *from = sums + (i * BM + row) * D + column;
            all = fmaf(weight, totals[i * BM + row], all), x = fmaf(weight, from[0], x), y = fmaf(weight, from[1], y);
        }
        const float inverse = finish(now, all, lse2);
        store_output(block, block.row0 + row, column, x * inverse, y * inverse);
        if (column == 0) block.bh.store_lse(block.split, block.row0 + row, lse2);
    }
}

template <class E, int D, int KW>
__global__ __launch_bounds__(MmaTile<D, KW>::threads,
                             MmaTile<D, KW>::per_multiprocessor) void flash_mma(const __grid_constant__ Params c) {
    using T = MmaTile<D, KW>;
    using Warp = MmaWarp<E, D, KW>;
    constexpr int BM = T::BM, BN = T::BN, steps = D / 16;
    extern __shared__ __align__(128) unsigned char memory[];
    const uint32_t base = ptx::shared_address(memory);
    const Block<E, BM> block(c);
    const auto [first, last, full] = block.keys();
    if (c.splits > 1) let_merging_start();
    const int32_t rows = min(BM, c.rows - block.row0);
    const E *K = block.bh.k(), *V = block.bh.v();
    Warp w;

    const auto load_keys = [&, last = last](int stage, int32_t j) {  // k, then v
        E* to = reinterpret_cast<E*>(memory + 2 * stage * T::kv_bytes);
        const int32_t count = min(BN, last - j);
        load_rows<E, D, BN, T::threads>(to, c.d, c.aligned_kv, count,
                                        [&](int i) { return K + (j + i) * c.k_stride[2]; });
        load_rows<E, D, BN, T::threads>(to + BN * D, c.dv, c.aligned_kv, count,
                                        [&](int i) { return V + (j + i) * c.v_stride[2]; });
    };
    const auto load_q_step = [&](uint32_t(&a)[4], int ks) {
        load_a<D>(a, base + T::q_at, w.own_row, ks);
        if (c.scale_log2 < 0) {  // the running maximum is of q·k times |scale|
#pragma unroll
            for (uint32_t& x : a) x ^= 0x80008000;
        }
    };
    load_rows<E, D, BM, T::threads>(reinterpret_cast<E*>(memory + T::q_at), c.d, c.aligned_q, rows,
                                    [&](int i) { return block.bh.q(block.row0 + i); });
    if (first < last) load_keys(0, first);
    cp_async_commit();
    uint32_t q[T::hold_q ? steps : 1][4];
    if constexpr (T::hold_q) {
        cp_async_wait<0>();
        __syncthreads();
#pragma unroll
        for (int ks = 0; ks < steps; ++ks) load_q_step(q[ks], ks);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) w.limit[i] = block.bh.limit(min(block.row0 + w.own_row + w.quad + 8 * i, c.rows - 1));

    const float scale = fabsf(c.scale_log2);
    int stage = 0;
    for (int32_t j = first; j < last; j += BN, stage ^= 1) {
        cp_async_wait<0>();
        __syncthreads();
        if (last - j > BN) load_keys(stage ^ 1, j + BN);
        cp_async_commit();
        const uint32_t k_at = base + 2 * stage * T::kv_bytes, v_at = k_at + T::kv_bytes;
        float s[Warp::NS][4] = {};
#pragma unroll
        for (int ks = 0; ks < steps; ++ks) {
            uint32_t now[4];
            if constexpr (!T::hold_q) load_q_step(now, ks);
            add_scores<E, D>(s, T::hold_q ? q[T::hold_q ? ks : 0] : now, k_at, w.own_key, ks);
        }
        if (j + BN > min(full, last)) w.mask(s, j, last);
        w.weigh(s, scale);
        add_weighted<E, D>(w.o, s, v_at, w.own_key);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) w.sum[i] = sum_of_four(w.sum[i]), w.max[i] = __fmul_rn(w.max[i], scale);
    if constexpr (KW == 1) {
        store_rows<E, D>(block, w);
    } else {
        cp_async_wait<0>();
        __syncthreads();
        merge_warps(block, w, rows, memory);
    }
    bool finite = true;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) finite = finite && are_finite(w.o[n]);
    if (!__syncthreads_and(finite)) make_rows_again<E, BM>(c);
}

}  // namespace causeway::gpu::softmax
