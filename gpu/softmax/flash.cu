// Flash attention on kernels for every device from sm_80 on.
#include "gpu/softmax/flash.hpp"

#include <algorithm>

#include "gpu/base/device.hpp"
#include "gpu/kit/element.cuh"
#include "gpu/kit/launch.hpp"
#include "gpu/kit/tensor_map.hpp"
#include "gpu/softmax/rows.cuh"
#include "gpu/softmax/tile.cuh"

namespace causeway::gpu::softmax {

namespace {

// Which rows and keys a block has. Blocks with most keys come first: with a causal mask those of the last rows.
template <class E, int BM>
struct Unit {
    int32_t row0, split;
    Line<E> line;

    __device__ explicit Unit(const Call& c) : row0(0), split(0), line(c, static_cast<int32_t>(blockIdx.x % c.lines)) {
        const uint32_t rest = blockIdx.x / c.lines, tiles = (c.rows + BM - 1) / BM;
        split = static_cast<int32_t>(rest % c.splits);
        row0 = static_cast<int32_t>(tiles - 1 - rest / c.splits) * BM;
    }
    // Keys [first, last) of the block in tiles of `tile`; every row sees those before `full`.
    __device__ void keys(const Call& c, int32_t& first, int32_t& last, int32_t& full) const {
        first = split * c.split_keys;
        last =
            static_cast<int32_t>(min(int64_t{first} + c.split_keys, int64_t{line.limit(min(row0 + BM, c.rows) - 1)}));
        full = line.limit(row0);
    }
};

// ---- 16-bit types: tensor cores ----

// KW = 1: each warp has 16 rows and all keys of a tile; KW > 1: the warps share 16 rows and have 1/KW of the keys each.
template <int D, int KW>
struct Tile {
    static constexpr int warps = KW == 1 ? 4 : KW, threads = 32 * warps, BM = KW == 1 ? 64 : 16,
                         BN = D == 256 ? 32 : 64;
    static constexpr bool hold_q =
        D <= 128;  // its fragments stay in registers; on the way it lies where the second tile of keys will
    static constexpr int kv_bytes = BN * D * 2, q_at = hold_q ? 2 * kv_bytes : 4 * kv_bytes;
    static constexpr int bytes = 4 * kv_bytes + (hold_q ? 0 : BM * D * 2);
    static constexpr int per_multiprocessor = D == 64 ? 4 : D == 128 && KW > 1 ? 3 : 2;
};

template <class E, int D, int KW>
__global__ __launch_bounds__(Tile<D, KW>::threads,
                             Tile<D, KW>::per_multiprocessor) void flash_mma(const __grid_constant__ Call c) {
    using T = Tile<D, KW>;
    constexpr int BM = T::BM, BN = T::BN, own_keys = BN / KW, NS = own_keys / 8, steps = D / 16;
    extern __shared__ __align__(128) unsigned char memory[];
    const uint32_t base = shared_address(memory);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, quad = lane / 4, pair = 2 * (lane % 4);
    const int own_row = KW == 1 ? 16 * warp : 0, own_key = KW == 1 ? 0 : own_keys * warp;
    const Unit<E, BM> unit(c);
    const Line<E>& line = unit.line;
    int32_t first, last, full;
    unit.keys(c, first, last, full);
    if (c.splits > 1) let_merging_start();
    const int32_t rows = min(BM, c.rows - unit.row0);
    const E *K = line.k(), *V = line.v();
    const bool aligned = c.aligned_kv;

    const auto load_keys = [&](int stage, int32_t j) {  // k, then v
        E* to = reinterpret_cast<E*>(memory + 2 * stage * T::kv_bytes);
        const int32_t count = min(BN, last - j);
        load_rows<E, D, BN, T::threads>(to, c.d, aligned, count, [&](int i) { return K + (j + i) * c.k_stride[2]; });
        load_rows<E, D, BN, T::threads>(to + BN * D, c.dv, aligned, count,
                                        [&](int i) { return V + (j + i) * c.v_stride[2]; });
    };
    const auto load_q_step = [&](uint32_t(&a)[4], int ks) {
        load_a<D>(a, base + T::q_at, own_row, ks);
        if (c.scale_log2 < 0) {  // the running maximum is of q·k times |scale|
#pragma unroll
            for (uint32_t& x : a) x ^= 0x80008000;
        }
    };
    const float scale = fabsf(c.scale_log2);

    load_rows<E, D, BM, T::threads>(reinterpret_cast<E*>(memory + T::q_at), c.d, c.aligned_q, rows,
                                    [&](int i) { return line.q(unit.row0 + i); });
    if (first < last) load_keys(0, first);
    cp_async_commit();
    uint32_t q[T::hold_q ? steps : 1][4];
    if constexpr (T::hold_q) {
        cp_async_wait<0>();
        __syncthreads();
#pragma unroll
        for (int ks = 0; ks < steps; ++ks) load_q_step(q[ks], ks);
    }

    float o[D / 8][4] = {}, m[2] = {minus_infinity, minus_infinity}, l[2] = {};
    int32_t limit[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) limit[i] = line.limit(min(unit.row0 + own_row + quad + 8 * i, c.rows - 1));
    int stage = 0;
    for (int32_t j = first; j < last; j += BN, stage ^= 1) {
        cp_async_wait<0>();
        __syncthreads();
        if (last - j > BN) load_keys(stage ^ 1, j + BN);
        cp_async_commit();
        const uint32_t k_at = base + 2 * stage * T::kv_bytes, v_at = k_at + T::kv_bytes;
        float s[NS][4] = {};
#pragma unroll
        for (int ks = 0; ks < steps; ++ks) {
            uint32_t now[4];
            if constexpr (!T::hold_q) load_q_step(now, ks);
            add_scores<E, D>(s, T::hold_q ? q[T::hold_q ? ks : 0] : now, k_at, own_key, ks);
        }
        if (j + BN > min(full, last)) {
#pragma unroll
            for (int n = 0; n < NS; ++n) {
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    if (j + own_key + 8 * n + pair + e % 2 >= min(limit[e / 2], last)) s[n][e] = minus_infinity;
                }
            }
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float now = m[i];
#pragma unroll
            for (int n = 0; n < NS; ++n) now = fmaxf(now, fmaxf(s[n][2 * i], s[n][2 * i + 1]));
            now = fmaxf(now, __shfl_xor_sync(0xFFFFFFFF, now, 1));
            now = fmaxf(now, __shfl_xor_sync(0xFFFFFFFF, now, 2));
            const float shift = shift_of(now, scale), back = exp2_fast(__fmul_rn(m[i], scale) - shift);
            m[i] = now;
            l[i] *= back;
#pragma unroll
            for (int n = 0; n < NS; ++n) {
#pragma unroll
                for (int e = 2 * i; e < 2 * i + 2; ++e)
                    s[n][e] = exp2_fast(fmaf(s[n][e], scale, -shift)), l[i] += s[n][e];
            }
#pragma unroll
            for (int n = 0; n < D / 8; ++n) o[n][2 * i] *= back, o[n][2 * i + 1] *= back;
        }
        add_weighed<E, D>(o, s, v_at, own_key);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        l[i] += __shfl_xor_sync(0xFFFFFFFF, l[i], 1);
        l[i] += __shfl_xor_sync(0xFFFFFFFF, l[i], 2);
        m[i] = __fmul_rn(m[i], scale);
    }
    const auto store = [&](int32_t row, int column, float x, float y) {
        if (c.splits > 1) {
            float* to = c.partial + line.partial_row(unit.split, row) * c.dv + column;
            if (column < c.dv) to[0] = x;
            if (column + 1 < c.dv) to[1] = y;
        } else {
            store_pair(line.o(row), column, c.dv, x, y);
        }
    };
    if constexpr (KW == 1) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int32_t row = unit.row0 + own_row + quad + 8 * i;
            if (row >= c.rows) continue;
            float lse2;
            const float inverse = finish(m[i], l[i], lse2);
#pragma unroll
            for (int n = 0; n < D / 8; ++n) store(row, 8 * n + pair, o[n][2 * i] * inverse, o[n][2 * i + 1] * inverse);
            if (lane % 4 == 0) line.store_lse(unit.split, row, lse2);
        }
    } else {
        cp_async_wait<0>();
        __syncthreads();
        float* sums = reinterpret_cast<float*>(memory);  // [warp][row][D], then maxima and totals [warp][row]
        float *most = sums + KW * BM * D, *total = most + KW * BM;
        static_assert(KW * BM * (D + 2) * 4 <= T::bytes);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int row = quad + 8 * i;
#pragma unroll
            for (int n = 0; n < D / 8; ++n) {
                sums[(warp * BM + row) * D + 8 * n + pair] = o[n][2 * i];
                sums[(warp * BM + row) * D + 8 * n + pair + 1] = o[n][2 * i + 1];
            }
            if (lane % 4 == 0) most[warp * BM + row] = m[i], total[warp * BM + row] = l[i];
        }
        __syncthreads();
        for (int at = threadIdx.x; at < rows * (D / 2); at += T::threads) {
            const int row = at / (D / 2), column = at % (D / 2) * 2;
            float now = minus_infinity, all = 0, x = 0, y = 0, lse2;
#pragma unroll
            for (int w = 0; w < KW; ++w) now = fmaxf(now, most[w * BM + row]);
#pragma unroll
            for (int w = 0; w < KW; ++w) {
                const float weight = exp2_fast(most[w * BM + row] - shift_of(now, 1.0f)),
                            *from = sums + (w * BM + row) * D + column;
                all = fmaf(weight, total[w * BM + row], all), x = fmaf(weight, from[0], x),
                y = fmaf(weight, from[1], y);
            }
            const float inverse = finish(now, all, lse2);
            store(unit.row0 + row, column, x * inverse, y * inverse);
            if (column == 0) line.store_lse(unit.split, unit.row0 + row, lse2);
        }
    }
}

// ---- Float32: FMA units ----

// 256 threads in 16 × 16: thread (y, x) has rows y, y + 16, ... and keys x, x + 16, ... of the scores, columns 4x ...
// of the output.
template <int D>
struct FloatTile {
    static constexpr int threads = 256, BM = D == 256 ? 32 : 64, BN = D == 256 ? 32 : 64, TM = BM / 16, TN = BN / 16,
                         C = D / 64;
    static constexpr int row = D + 4, score_row = BN + 4;  // floats: eight rows side by side lie in different banks
    static constexpr int floats = (BM + BN) * row + BM * score_row, bytes = 4 * floats;
    static constexpr int per_multiprocessor = 2;
};

template <int D>
__global__ __launch_bounds__(FloatTile<D>::threads,
                             FloatTile<D>::per_multiprocessor) void flash_float(const __grid_constant__ Call c) {
    using T = FloatTile<D>;
    constexpr int BM = T::BM, BN = T::BN, TM = T::TM, TN = T::TN, C = T::C, row_floats = T::row,
                  score_row = T::score_row;
    extern __shared__ __align__(16) float floats[];
    float *q = floats, *kv = q + BM * row_floats, *p = kv + BN * row_floats;
    const int x = threadIdx.x % 16, y = threadIdx.x / 16;
    const Unit<float, BM> unit(c);
    const Line<float>& line = unit.line;
    int32_t first, last, full;
    unit.keys(c, first, last, full);
    if (c.splits > 1) let_merging_start();

    const auto load = [&](float* to, int rows, int32_t count, int columns, bool aligned, float factor, auto&& row) {
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
            *reinterpret_cast<float4*>(to + i * row_floats + e) =
                make_float4(f.x * factor, f.y * factor, f.z * factor, f.w * factor);
        }
    };
    const float scale = fabsf(c.scale_log2);
    load(q, BM, c.rows - unit.row0, c.d, c.aligned_q, c.scale_log2 < 0 ? -1.0f : 1.0f,
         [&](int i) { return line.q(unit.row0 + i); });
    float o[TM][C][4] = {}, m[TM], l[TM];
    int32_t limit[TM];
#pragma unroll
    for (int a = 0; a < TM; ++a)
        m[a] = minus_infinity, l[a] = 0, limit[a] = line.limit(min(unit.row0 + y + 16 * a, c.rows - 1));

    for (int32_t j = first; j < last; j += BN) {
        __syncthreads();
        load(kv, BN, last - j, c.d, c.aligned_kv, 1.0f, [&](int i) { return line.k() + (j + i) * c.k_stride[2]; });
        __syncthreads();
        float s[TM][TN] = {};
#pragma unroll 4
        for (int e = 0; e < D; e += 4) {
            float4 a[TM], b[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i) a[i] = *reinterpret_cast<const float4*>(q + (y + 16 * i) * row_floats + e);
#pragma unroll
            for (int i = 0; i < TN; ++i) b[i] = *reinterpret_cast<const float4*>(kv + (x + 16 * i) * row_floats + e);
#pragma unroll
            for (int i = 0; i < TM; ++i) {
#pragma unroll
                for (int n = 0; n < TN; ++n) {
                    s[i][n] = fmaf(a[i].x, b[n].x, s[i][n]), s[i][n] = fmaf(a[i].y, b[n].y, s[i][n]);
                    s[i][n] = fmaf(a[i].z, b[n].z, s[i][n]), s[i][n] = fmaf(a[i].w, b[n].w, s[i][n]);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < TM; ++i) {
            float now = m[i], sum = 0;
#pragma unroll
            for (int n = 0; n < TN; ++n) {
                if (j + x + 16 * n >= min(limit[i], last)) s[i][n] = minus_infinity;
                now = fmaxf(now, s[i][n]);
            }
#pragma unroll
            for (int step = 8; step > 0; step /= 2) now = fmaxf(now, __shfl_xor_sync(0xFFFFFFFF, now, step));
            const float shift = shift_of(now, scale), back = exp2f(__fmul_rn(m[i], scale) - shift);
            m[i] = now;
#pragma unroll
            for (int n = 0; n < TN; ++n) {
                const float w = exp2f(fmaf(s[i][n], scale, -shift));
                p[(y + 16 * i) * score_row + x + 16 * n] = w;
                sum += w;
            }
            l[i] = fmaf(l[i], back, sum);
#pragma unroll
            for (int n = 0; n < C; ++n) o[i][n][0] *= back, o[i][n][1] *= back, o[i][n][2] *= back, o[i][n][3] *= back;
        }
        __syncthreads();
        load(kv, BN, last - j, c.dv, c.aligned_kv, 1.0f, [&](int i) { return line.v() + (j + i) * c.v_stride[2]; });
        __syncthreads();
#pragma unroll 2
        for (int e = 0; e < BN; e += 4) {
            float4 w[TM];
#pragma unroll
            for (int i = 0; i < TM; ++i) w[i] = *reinterpret_cast<const float4*>(p + (y + 16 * i) * score_row + e);
#pragma unroll
            for (int t = 0; t < 4; ++t) {
#pragma unroll
                for (int n = 0; n < C; ++n) {
                    const float4 v = *reinterpret_cast<const float4*>(kv + (e + t) * row_floats + 64 * n + 4 * x);
#pragma unroll
                    for (int i = 0; i < TM; ++i) {
                        const float f = t == 0 ? w[i].x : t == 1 ? w[i].y : t == 2 ? w[i].z : w[i].w;
                        o[i][n][0] = fmaf(f, v.x, o[i][n][0]), o[i][n][1] = fmaf(f, v.y, o[i][n][1]);
                        o[i][n][2] = fmaf(f, v.z, o[i][n][2]), o[i][n][3] = fmaf(f, v.w, o[i][n][3]);
                    }
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int step = 8; step > 0; step /= 2) l[i] += __shfl_xor_sync(0xFFFFFFFF, l[i], step);
        const int32_t row = unit.row0 + y + 16 * i;
        if (row >= c.rows) continue;
        float lse2;
        const float inverse = finish(__fmul_rn(m[i], scale), l[i], lse2);
        float* to = c.splits > 1 ? c.partial + line.partial_row(unit.split, row) * c.dv : line.o(row);
#pragma unroll
        for (int n = 0; n < C; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                if (64 * n + 4 * x + e < c.dv) to[64 * n + 4 * x + e] = o[i][n][e] * inverse;
            }
        }
        if (x == 0) line.store_lse(unit.split, row, lse2);
    }
}

// ---- Launches ----

// Calls f(tile, kernel) with the tile and kernel for these widths and this many rows.
template <class F>
void choose(const SoftmaxArgs& a, F&& f) {
    const int width = std::max(a.d, a.dv);
    if (a.type == Type::Float32) {
        if (width <= 64) f(FloatTile<64>{}, flash_float<64>);
        else if (width <= 128) f(FloatTile<128>{}, flash_float<128>);
        else f(FloatTile<256>{}, flash_float<256>);
        return;
    }
    const bool few = a.N * a.group <= 16;
    visit(a.type, [&](auto e) {
        using E = decltype(e);
        if constexpr (sizeof(E) == 2) {
            if (width <= 64) few ? f(Tile<64, 4>{}, flash_mma<E, 64, 4>) : f(Tile<64, 1>{}, flash_mma<E, 64, 1>);
            else if (width <= 128)
                few ? f(Tile<128, 4>{}, flash_mma<E, 128, 4>) : f(Tile<128, 1>{}, flash_mma<E, 128, 1>);
            else few ? f(Tile<256, 2>{}, flash_mma<E, 256, 2>) : f(Tile<256, 1>{}, flash_mma<E, 256, 1>);
        }
    });
}

template <class T>
int64_t units_of(const SoftmaxArgs& a, const T&) {
    return a.B * a.H * ((a.N * a.group + T::BM - 1) / T::BM);
}

// Enough pieces of the keys for every multiprocessor to hold as many blocks as it can; whole waves where few rows wait
// for memory.
template <class T>
Call plan_of(const SoftmaxArgs& a, int splits, const T& tile) {
    const int64_t slots = int64_t{T::per_multiprocessor} * device().multiprocessors,
                  units = std::max<int64_t>(1, units_of(a, tile));
    const int chosen = T::BM == 16 ? whole_waves(units, slots) : static_cast<int>(std::max<int64_t>(1, slots / units));
    return call_of(a, splits > 0 ? splits : chosen, T::BN);
}

bool empty(const SoftmaxArgs& a) { return a.B == 0 || a.H == 0 || a.N == 0; }

}  // namespace

std::size_t flash_portable_workspace(const SoftmaxArgs& a, int splits) {
    check_args("flash_attention", a);
    std::size_t bytes = 0;
    if (!empty(a)) choose(a, [&](auto tile, auto) { bytes = workspace_of(plan_of(a, splits, tile)); });
    return bytes;
}

void flash_portable(const SoftmaxArgs& a, int splits, cudaStream_t stream) {
    check_args("flash_attention", a);
    if (empty(a)) return;
    choose(a, [&](auto tile, auto kernel) {
        const Call c = plan_of(a, splits, tile);
        check_workspace("flash_attention", a, c);
        const int64_t blocks = units_of(a, tile) * c.splits;
        if (blocks >= int64_t{1} << 31) fail("flash_attention: ", blocks, " blocks, expected below 2^31");
        launch(kernel, "launching flash attention", dim3(static_cast<unsigned>(blocks)), tile.threads, tile.bytes, 1,
               false, stream, c);
        if (c.splits > 1) merge_splits(c, a.type, stream);
    });
}

}  // namespace causeway::gpu::softmax

namespace causeway::gpu {

namespace softmax {

bool hopper_reaches(const SoftmaxArgs& a) {
    // The copy engine takes no stride of 0 (one head shared by broadcasting).
    const auto reached = [&](const void* data, Strides s, int64_t heads, int64_t tokens) {
        return tma_reaches(data, a.type, s) && (a.B == 1 || s.batch > 0) && (heads == 1 || s.head > 0) &&
               (tokens == 1 || s.token > 0);
    };
    return device().hopper() && bytes_of(a.type) == 2 && a.d == a.dv && (a.d == 64 || a.d == 128) && a.M > 0 &&
           reached(a.q, a.q_stride, a.H * a.group, a.N) && reached(a.k, a.k_stride, a.H, a.M) &&
           reached(a.v, a.v_stride, a.H, a.M) && reached(a.o, a.o_stride, a.H * a.group, a.N);
}

namespace {

// Blocks of 128 queries of one head, unsplit: where there are enough of them to occupy the device.
bool use_hopper(const SoftmaxArgs& a) {
    return a.N >= 64 && 2 * a.B * a.H * a.group * ((a.N + 127) / 128) >= device().multiprocessors && hopper_reaches(a);
}

}  // namespace
}  // namespace softmax

std::size_t flash_attention_workspace(const SoftmaxArgs& a) {
    softmax::check_args("flash_attention", a);
    return softmax::use_hopper(a) ? 0 : softmax::flash_portable_workspace(a);
}

void flash_attention(const SoftmaxArgs& a, cudaStream_t stream) {
    softmax::check_args("flash_attention", a);
    if (softmax::use_hopper(a)) softmax::flash_on_hopper(a, stream);
    else softmax::flash_portable(a, 0, stream);
}

}  // namespace causeway::gpu
