// The kernel of flash-decoding: keys and values go from memory to registers once, and meet a few rows on FMA units.
#pragma once

#include <type_traits>

#include "gpu/softmax/rows.cuh"

namespace causeway::gpu::softmax {

constexpr int decode_warps = 8, decode_threads = 32 * decode_warps;

// 16 bytes of a row as floats.
template <class E>
struct Piece {
    static constexpr int size = 16 / sizeof(E);
    uint4 bits;

    // Elements from column `column` of a row of `width`; zeros behind it.
    __device__ __forceinline__ void load(const E* row, int column, int width, bool aligned) {
        bits = make_uint4(0, 0, 0, 0);
        if (aligned) {
            if (column < width) bits = ptx::ld_global_nc_no_allocate(row + column);
        } else {
            E* x = reinterpret_cast<E*>(&bits);
#pragma unroll
            for (int i = 0; i < size; ++i) {
                if (column + i < width) x[i] = row[column + i];
            }
        }
    }
    __device__ __forceinline__ void clear() { bits = make_uint4(0, 0, 0, 0); }
    __device__ __forceinline__ void floats(float (&x)[size]) const {
        const uint32_t w[4] = {bits.x, bits.y, bits.z, bits.w};
        if constexpr (sizeof(E) == 4) {
#pragma unroll
            for (int i = 0; i < 4; ++i) x[i] = __uint_as_float(w[i]);
        } else if constexpr (std::is_same_v<E, __nv_bfloat16>) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                x[2 * i] = __uint_as_float(w[i] << 16), x[2 * i + 1] = __uint_as_float(w[i] & 0xFFFF0000);
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float2 f = __half22float2(*reinterpret_cast<const __half2*>(&w[i]));
                x[2 * i] = f.x, x[2 * i + 1] = f.y;
            }
        }
    }
};

// Lanes that share a row of D elements, each with V pieces of 16 bytes, and such groups in a warp.
template <class E, int D>
struct Lanes {
    static constexpr int pieces = D * int(sizeof(E)) / 16, lanes = pieces < 32 ? pieces : 32, V = pieces / lanes,
                         groups = 32 / lanes, per_lane = V * Piece<E>::size;
    // The first column of a lane's piece i.
    static __device__ __forceinline__ int column(int in_group, int i) {
        return (in_group + i * lanes) * Piece<E>::size;
    }
};

// Where the keys of a batch-head lie that a lane reads: those before `last`.
template <class E>
struct KeyRows {
    const E *k, *v;
    int64_t k_step, v_step;
    int32_t last;
    int d, dv, in_group;
    bool aligned;

    __device__ __forceinline__ KeyRows(const BatchHead<E>& bh, int32_t end, int place)
        : k(bh.k()),
          v(bh.v()),
          k_step(bh.c.k_stride[2]),
          v_step(bh.c.v_stride[2]),
          last(end),
          d(bh.c.d),
          dv(bh.c.dv),
          in_group(place),
          aligned(bh.c.aligned_kv) {}
};

// U keys and values of a group of lanes, every groups-th from j0 on; zeros behind the last.
template <class E, int D, int U>
struct DecodeKeys {
    using L = Lanes<E, D>;
    Piece<E> k[U][L::V], v[U][L::V];

    __device__ __forceinline__ void load(const KeyRows<E>& from, int64_t j0) {
        load(k, from.k, from.k_step, from.d, from, j0);
        load(v, from.v, from.v_step, from.dv, from, j0);
    }
    __device__ __forceinline__ static void load(Piece<E> (&x)[U][L::V], const E* rows, int64_t step, int width,
                                                const KeyRows<E>& from, int64_t j0) {
#pragma unroll
        for (int u = 0; u < U; ++u) {
#pragma unroll
            for (int i = 0; i < L::V; ++i) {
                if (j0 + u * L::groups < from.last)
                    x[u][i].load(rows + (j0 + u * L::groups) * step, L::column(from.in_group, i), width, from.aligned);
                else x[u][i].clear();
            }
        }
    }
    // Elements of this lane of one of the rows.
    __device__ __forceinline__ static void floats(float (&x)[L::per_lane], const Piece<E> (&row)[L::V]) {
#pragma unroll
        for (int i = 0; i < L::V; ++i)
            row[i].floats(*reinterpret_cast<float(*)[Piece<E>::size]>(x + i * Piece<E>::size));
    }
};

// What a lane has of R rows while keys pass by: its columns of q and of the weighted sum of values, and the running
// maximum and sum of its group.
template <class E, int D, int R, int U>
struct DecodeRows {
    using L = Lanes<E, D>;
    using Keys = DecodeKeys<E, D, U>;
    static constexpr int per_lane = L::per_lane;
    float q[R][per_lane], o[R][per_lane], max[R], sum[R], scale;
    int32_t limit[R], longest = 0;

    __device__ __forceinline__ void load(const BatchHead<E>& bh, int32_t row0, int in_group, int32_t keys) {
        const Params& c = bh.c;
        const float sign = c.scale_log2 < 0 ? -1.0f : 1.0f;  // the running maximum is of ±q·k
        constexpr int P = Piece<E>::size;
        scale = fabsf(c.scale_log2);
#pragma unroll
        for (int r = 0; r < R; ++r) {
            const int32_t row = min(row0 + r, c.rows - 1);
            limit[r] = min(bh.limit(row), keys), longest = ::max(longest, limit[r]);
            max[r] = minus_infinity, sum[r] = 0;
            const E* from = bh.q(row);
#pragma unroll
            for (int i = 0; i < L::V; ++i) {
                Piece<E> x;
                x.load(from, L::column(in_group, i), c.d, c.aligned_q);
                float f[P];
                x.floats(f);
#pragma unroll
                for (int e = 0; e < P; ++e) q[r][i * P + e] = f[e] * sign, o[r][i * P + e] = 0;
            }
        }
    }

    // Scores of the keys, in every lane of the group.
    __device__ __forceinline__ void scores(float (&s)[R][U], const Keys& keys) const {
#pragma unroll
        for (int u = 0; u < U; ++u) {
            float x[per_lane];
            Keys::floats(x, keys.k[u]);
#pragma unroll
            for (int r = 0; r < R; ++r) {
                float dot = 0;
#pragma unroll
                for (int e = 0; e < per_lane; ++e) dot = fmaf(q[r][e], x[e], dot);
                s[r][u] = dot;
            }
        }
#pragma unroll
        for (int other = L::lanes / 2; other > 0; other /= 2) {
#pragma unroll
            for (int r = 0; r < R; ++r) {
#pragma unroll
                for (int u = 0; u < U; ++u) s[r][u] += __shfl_xor_sync(all_lanes, s[r][u], other);
            }
        }
    }
    // Scores to weights, and what is summed so far to the new maximum.
    __device__ __forceinline__ void weigh(float (&s)[R][U], int64_t j0) {
#pragma unroll
        for (int r = 0; r < R; ++r) {
            float now = max[r];
#pragma unroll
            for (int u = 0; u < U; ++u) {
                if (j0 + u * L::groups >= limit[r]) s[r][u] = minus_infinity;
                now = fmaxf(now, s[r][u]);
            }
            const float shift = shift_of(now, scale), back = ptx::ex2_approx(__fmul_rn(max[r], scale) - shift);
            max[r] = now;
            sum[r] *= back;
#pragma unroll
            for (int e = 0; e < per_lane; ++e) o[r][e] *= back;
#pragma unroll
            for (int u = 0; u < U; ++u) s[r][u] = ptx::ex2_approx(fmaf(s[r][u], scale, -shift)), sum[r] += s[r][u];
        }
    }
    __device__ __forceinline__ void add_values(const float (&s)[R][U], const Keys& keys) {
#pragma unroll
        for (int u = 0; u < U; ++u) {
            float x[per_lane];
            Keys::floats(x, keys.v[u]);
#pragma unroll
            for (int r = 0; r < R; ++r) {
#pragma unroll
                for (int e = 0; e < per_lane; ++e) o[r][e] = fmaf(s[r][u], x[e], o[r][e]);
            }
        }
    }
    // The groups of a warp into one: max is now in units of log 2.
    __device__ __forceinline__ void merge_groups() {
#pragma unroll
        for (int r = 0; r < R; ++r) {
            max[r] = __fmul_rn(max[r], scale);
            float highest = max[r];
#pragma unroll
            for (int other = L::lanes; other < 32; other *= 2)
                highest = fmaxf(highest, __shfl_xor_sync(all_lanes, highest, other));
            const float back = ptx::ex2_approx(max[r] - shift_of(highest, 1.0f));
            max[r] = highest;
            sum[r] *= back;
#pragma unroll
            for (int e = 0; e < per_lane; ++e) o[r][e] *= back;
#pragma unroll
            for (int other = L::lanes; other < 32; other *= 2) {
                sum[r] += __shfl_xor_sync(all_lanes, sum[r], other);
#pragma unroll
                for (int e = 0; e < per_lane; ++e) o[r][e] += __shfl_xor_sync(all_lanes, o[r][e], other);
            }
        }
    }
};

// What the warps of a block leave for the others.
template <int D, int R>
struct DecodeSums {
    float o[decode_warps][R][D], max[decode_warps][R], sum[decode_warps][R];
};

// The warps of a block into one: output and log-sum-exp of the block's rows.
template <class E, int D, int R>
__device__ __forceinline__ void merge_warps(const BatchHead<E>& bh, const DecodeSums<D, R>& sums, int32_t row0,
                                            int32_t split) {
    const Params& c = bh.c;
    for (int i = threadIdx.x; i < R * D; i += decode_threads) {
        const int r = i / D, e = i % D;
        const int32_t row = row0 + r;
        if (row >= c.rows || e >= c.dv) continue;
        float highest = minus_infinity, sum = 0, all = 0, lse2;
#pragma unroll
        for (int w = 0; w < decode_warps; ++w) highest = fmaxf(highest, sums.max[w][r]);
#pragma unroll
        for (int w = 0; w < decode_warps; ++w) {
            const float weight = ptx::ex2_approx(sums.max[w][r] - shift_of(highest, 1.0f));
            sum = fmaf(weight, sums.o[w][r][e], sum), all = fmaf(weight, sums.sum[w][r], all);
        }
        const float x = sum * finish(highest, all, lse2);
        if (c.splits > 1) c.partial[bh.partial_row(split, row) * c.dv + e] = x;
        else bh.o(row)[e] = static_cast<E>(x);
        if (e == 0) bh.store_lse(split, row, lse2);
    }
}

// One block: R rows of one batch-head and one split of the keys: every splits-th chunk, so that the blocks of a
// batch-head go through memory side by side. Every group of lanes goes through its keys, U at a time (with `ahead` the
// next U on their way), with its own running maximum; k and v are read once for all R rows. Where `length` is not null,
// there are *length + 1 of the M keys.
template <class E, int D, int R, int U, bool ahead>
__global__ __launch_bounds__(decode_threads) void decode_kernel(const __grid_constant__ Params c,
                                                                const int32_t* length) {
    using L = Lanes<E, D>;
    __shared__ DecodeSums<D, R> sums;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / L::lanes, in_group = lane % L::lanes;
    const int32_t split = static_cast<int32_t>(blockIdx.x % c.splits), tiles = (c.rows + R - 1) / R;
    const int32_t row0 = static_cast<int32_t>(blockIdx.x / c.splits % tiles) * R;
    const BatchHead<E> bh(c, static_cast<int32_t>(blockIdx.x / c.splits / tiles));
    if (c.splits > 1 || length) let_merging_start();
#if __CUDA_ARCH__ >= 900
    if (length) ptx::griddepcontrol_wait();  // launched while the kernel before it ends
#endif
    DecodeRows<E, D, R, U> rows;
    rows.load(bh, row0, in_group, length ? *length + 1 : c.M);
    const int32_t last = min(c.M, rows.longest);
    // All lanes of a warp make the same number of steps: the shuffles are for all of them.
    constexpr int warp_keys = L::groups * U, chunk = decode_warps * warp_keys;
    const int64_t start = int64_t{split} * chunk + warp * warp_keys, step = int64_t{c.splits} * chunk;
    const KeyRows<E> keys(bh, last, in_group);
    DecodeKeys<E, D, U> now, next;
    if (ahead) next.load(keys, start + group);
    for (int64_t base = start; base < last; base += step) {
        const int64_t j0 = base + group;
        if (ahead) {
            now = next;
            next.load(keys, j0 + step);
        } else {
            now.load(keys, j0);
        }
        float s[R][U];
        rows.scores(s, now);
        rows.weigh(s, j0);
        rows.add_values(s, now);
    }
    rows.merge_groups();
#pragma unroll
    for (int r = 0; r < R; ++r) {
        if (group == 0) {
#pragma unroll
            for (int i = 0; i < L::V; ++i) {
#pragma unroll
                for (int e = 0; e < Piece<E>::size; ++e)
                    sums.o[warp][r][L::column(in_group, i) + e] = rows.o[r][i * Piece<E>::size + e];
            }
        }
        if (lane == 0) sums.max[warp][r] = rows.max[r], sums.sum[warp][r] = rows.sum[r];
    }
    __syncthreads();
    merge_warps(bh, sums, row0, split);
}

}  // namespace causeway::gpu::softmax
