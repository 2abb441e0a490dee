#include "gpu/softmax/decode.hpp"

#include <algorithm>

#include "gpu/base/device.hpp"
#include "gpu/kit/element.cuh"
#include "gpu/kit/launch.hpp"
#include "gpu/softmax/flash.hpp"
#include "gpu/softmax/mma.cuh"
#include "gpu/softmax/rows.cuh"

namespace causeway::gpu {

namespace softmax {

namespace {

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
            if (column < width) {
                asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                             : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
                             : "l"(row + column));
            }
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
                         groups = 32 / lanes;
};

// One block: R rows of one line and one split of the keys: every splits-th chunk, so that the blocks of a line go
// through memory side by side. Every group of lanes goes through its keys, U at a time (with `ahead` the next U on
// their way), with its own running maximum; k and v go from memory to registers and are read once for all R rows.
template <class E, int D, int R, int U, bool ahead>
__global__ __launch_bounds__(decode_threads) void decode_kernel(const __grid_constant__ Call c) {
    using L = Lanes<E, D>;
    constexpr int P = Piece<E>::size, V = L::V, per_lane = P * V;
    __shared__ float sums[decode_warps][R][D], most[decode_warps][R], total[decode_warps][R];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / L::lanes, in_group = lane % L::lanes;
    const int32_t split = static_cast<int32_t>(blockIdx.x % c.splits), tiles = (c.rows + R - 1) / R;
    const int32_t row0 = static_cast<int32_t>(blockIdx.x / c.splits % tiles) * R;
    const Line<E> line(c, static_cast<int32_t>(blockIdx.x / c.splits / tiles));
    if (c.splits > 1) let_merging_start();
    const bool aligned = c.aligned_kv;
    const float scale = fabsf(c.scale_log2), sign = c.scale_log2 < 0 ? -1.0f : 1.0f;  // the running maximum is of ±q·k
    const auto column = [&](int i) { return (in_group + i * L::lanes) * P; };

    float q[R][per_lane], o[R][per_lane], m[R], l[R];
    int32_t limit[R], longest = 0;
#pragma unroll
    for (int r = 0; r < R; ++r) {
        const int32_t row = min(row0 + r, c.rows - 1);
        limit[r] = line.limit(row), longest = max(longest, limit[r]);
        m[r] = minus_infinity, l[r] = 0;
        const E* from = line.q(row);
#pragma unroll
        for (int i = 0; i < V; ++i) {
            Piece<E> x;
            x.load(from, column(i), c.d, c.aligned_q);
            float f[P];
            x.floats(f);
#pragma unroll
            for (int e = 0; e < P; ++e) q[r][i * P + e] = f[e] * sign, o[r][i * P + e] = 0;
        }
    }
    const int64_t k_step = c.k_stride[2], v_step = c.v_stride[2];
    const E *K = line.k(), *values = line.v();
    constexpr int warp_keys = L::groups * U, chunk = decode_warps * warp_keys;
    const int32_t last = min(c.M, longest);
    struct Keys {
        Piece<E> k[U][V], v[U][V];
    };
    const auto load = [&](Keys& x, int64_t j0) {
#pragma unroll
        for (int u = 0; u < U; ++u) {
#pragma unroll
            for (int i = 0; i < V; ++i) {
                if (j0 + u * L::groups < last)
                    x.k[u][i].load(K + (j0 + u * L::groups) * k_step, column(i), c.d, aligned);
                else x.k[u][i].clear();
            }
        }
#pragma unroll
        for (int u = 0; u < U; ++u) {
#pragma unroll
            for (int i = 0; i < V; ++i) {
                if (j0 + u * L::groups < last)
                    x.v[u][i].load(values + (j0 + u * L::groups) * v_step, column(i), c.dv, aligned);
                else x.v[u][i].clear();
            }
        }
    };
    // All lanes of a warp make the same number of steps: the shuffles are for all of them.
    const int64_t start = int64_t{split} * chunk + warp * warp_keys, step = int64_t{c.splits} * chunk;
    Keys now, next;
    if (ahead) load(next, start + group);
    for (int64_t base = start; base < last; base += step) {
        const int64_t j0 = base + group;
        if (ahead) {
            now = next;
            load(next, j0 + step);
        } else {
            load(now, j0);
        }
        float s[R][U];
#pragma unroll
        for (int u = 0; u < U; ++u) {
            float x[per_lane];
#pragma unroll
            for (int i = 0; i < V; ++i) now.k[u][i].floats(*reinterpret_cast<float(*)[P]>(x + i * P));
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
                for (int u = 0; u < U; ++u) s[r][u] += __shfl_xor_sync(0xFFFFFFFF, s[r][u], other);
            }
        }
#pragma unroll
        for (int r = 0; r < R; ++r) {
            float most_now = m[r];
#pragma unroll
            for (int u = 0; u < U; ++u) {
                if (j0 + u * L::groups >= limit[r]) s[r][u] = minus_infinity;
                most_now = fmaxf(most_now, s[r][u]);
            }
            const float shift = shift_of(most_now, scale), back = exp2_fast(__fmul_rn(m[r], scale) - shift);
            m[r] = most_now;
            l[r] *= back;
#pragma unroll
            for (int e = 0; e < per_lane; ++e) o[r][e] *= back;
#pragma unroll
            for (int u = 0; u < U; ++u) s[r][u] = exp2_fast(fmaf(s[r][u], scale, -shift)), l[r] += s[r][u];
        }
#pragma unroll
        for (int u = 0; u < U; ++u) {
            float x[per_lane];
#pragma unroll
            for (int i = 0; i < V; ++i) now.v[u][i].floats(*reinterpret_cast<float(*)[P]>(x + i * P));
#pragma unroll
            for (int r = 0; r < R; ++r) {
#pragma unroll
                for (int e = 0; e < per_lane; ++e) o[r][e] = fmaf(s[r][u], x[e], o[r][e]);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
        m[r] = __fmul_rn(m[r], scale);
        float highest = m[r];
#pragma unroll
        for (int other = L::lanes; other < 32; other *= 2)
            highest = fmaxf(highest, __shfl_xor_sync(0xFFFFFFFF, highest, other));
        const float back = exp2_fast(m[r] - shift_of(highest, 1.0f));
        l[r] *= back;
#pragma unroll
        for (int e = 0; e < per_lane; ++e) o[r][e] *= back;
#pragma unroll
        for (int other = L::lanes; other < 32; other *= 2) {
            l[r] += __shfl_xor_sync(0xFFFFFFFF, l[r], other);
#pragma unroll
            for (int e = 0; e < per_lane; ++e) o[r][e] += __shfl_xor_sync(0xFFFFFFFF, o[r][e], other);
        }
        if (group == 0) {
#pragma unroll
            for (int i = 0; i < V; ++i) {
#pragma unroll
                for (int e = 0; e < P; ++e) sums[warp][r][column(i) + e] = o[r][i * P + e];
            }
        }
        if (lane == 0) most[warp][r] = highest, total[warp][r] = l[r];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < R * D; i += decode_threads) {
        const int r = i / D, e = i % D;
        const int32_t row = row0 + r;
        if (row >= c.rows || e >= c.dv) continue;
        float highest = minus_infinity, sum = 0, all = 0, lse2;
#pragma unroll
        for (int w = 0; w < decode_warps; ++w) highest = fmaxf(highest, most[w][r]);
#pragma unroll
        for (int w = 0; w < decode_warps; ++w) {
            const float weight = exp2_fast(most[w][r] - shift_of(highest, 1.0f));
            sum = fmaf(weight, sums[w][r][e], sum), all = fmaf(weight, total[w][r], all);
        }
        const float x = sum * finish(highest, all, lse2);
        if (c.splits > 1) c.partial[line.partial_row(split, row) * c.dv + e] = x;
        else line.o(row)[e] = static_cast<E>(x);
        if (e == 0) line.store_lse(split, row, lse2);
    }
}

// Rows that a block has, and the width its registers are made for.
int rows_at_once(int64_t rows) { return rows == 1 ? 1 : rows == 2 ? 2 : 4; }
int width_of(const SoftmaxArgs& a) { return std::max(a.d, a.dv) <= 64 ? 64 : std::max(a.d, a.dv) <= 128 ? 128 : 256; }

// Two blocks to a multiprocessor.
Call plan_of(const SoftmaxArgs& a, int splits) {
    const int64_t rows = a.N * a.group, R = rows_at_once(rows), units = a.B * a.H * ((rows + R - 1) / R);
    return call_of(a, splits > 0 ? splits : whole_waves(units, int64_t{2} * device().multiprocessors), 1);
}

template <class E, int D, int R>
void run(const Call& c, cudaStream_t stream) {
    const int64_t blocks = int64_t{c.splits} * c.lines * ((c.rows + R - 1) / R);
    if (blocks >= int64_t{1} << 31) fail("flash_decoding: ", blocks, " blocks, expected below 2^31");
    constexpr bool wide = Lanes<E, D>::V > 1, ahead = R == 1;  // more rows leave no registers for keys on their way
    constexpr int U = R * (wide ? 2 : 1) <= 2 ? 4 : 2;
    launch(decode_kernel<E, D, R, U, ahead>, "launching decode_kernel", dim3(static_cast<unsigned>(blocks)),
           decode_threads, 0, 1, false, stream, c);
}

template <class E, int D>
void run(const Call& c, cudaStream_t stream) {
    const int R = rows_at_once(c.rows);
    if constexpr (sizeof(E) == 4) {
        if (R == 2) return run<E, D, 2>(c, stream);
        if (R == 4) return run<E, D, 4>(c, stream);
    }
    run<E, D, 1>(c, stream);
}

bool empty(const SoftmaxArgs& a) { return a.B == 0 || a.H == 0 || a.N == 0; }

void check_decoding(const SoftmaxArgs& a) {
    check_args("flash_decoding", a);
    const int64_t rows = a.N * a.group, most = most_decoded_rows(a.type);
    if (rows > most) fail("flash_decoding: ", rows, " rows, expected at most ", most, " on FMA units");
}

}  // namespace

std::size_t decode_workspace(const SoftmaxArgs& a, int splits) {
    check_decoding(a);
    return empty(a) ? 0 : workspace_of(plan_of(a, splits));
}

void decode(const SoftmaxArgs& a, int splits, cudaStream_t stream) {
    check_decoding(a);
    if (empty(a)) return;
    const Call c = plan_of(a, splits);
    check_workspace("flash_decoding", a, c);
    const int width = width_of(a);
    visit(a.type, [&](auto e) {
        using E = decltype(e);
        if (width == 64) run<E, 64>(c, stream);
        else if (width == 128) run<E, 128>(c, stream);
        else run<E, 256>(c, stream);
    });
    if (c.splits > 1) merge_splits(c, a.type, stream);
}

}  // namespace softmax

std::size_t flash_decoding_workspace(const SoftmaxArgs& a) {
    softmax::check_args("flash_decoding", a);
    return a.N * a.group <= softmax::most_decoded_rows(a.type) ? softmax::decode_workspace(a)
                                                               : flash_attention_workspace(a);
}

void flash_decoding(const SoftmaxArgs& a, cudaStream_t stream) {
    softmax::check_args("flash_decoding", a);
    if (a.N * a.group <= softmax::most_decoded_rows(a.type)) softmax::decode(a, 0, stream);
    else flash_attention(a, stream);
}

}  // namespace causeway::gpu
