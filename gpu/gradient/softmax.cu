#include "gpu/gradient/softmax.hpp"

#include <algorithm>

#include "gpu/kit/element.cuh"
#include "gpu/kit/launch.hpp"
#include "gpu/softmax/rows.cuh"
#include "gpu/softmax/tile.cuh"

namespace causeway::gpu {

namespace softmax {

namespace {

// The call of the forward pass, and what the gradient has beside it. P_ij = e^{s_ij - lse_i}, dP_ij = dO_i·v_j, D_i =
// dO_i·o_i, dS_ij = P_ij (dP_ij - D_i).
struct Gradient {
    Call c;
    const void* dO;
    void *dq, *dk, *dv;
    float* lse2;  // [line, row], in units of log 2; 0 for a row that sees nothing
    float* D;     // [line, row]
    float scale;
    std::int32_t aligned_dO;
};

// A pointer of the same tensor shape: dO lies like o, dq like q.
template <class E>
__device__ __forceinline__ E* beside(const void* other, const E* element, const void* own) {
    return static_cast<E*>(const_cast<void*>(other)) + (element - static_cast<const E*>(own));
}

// One warp: a row.
template <class E>
__global__ __launch_bounds__(256) void row_sums(const __grid_constant__ Gradient g) {
    const Call& c = g.c;
    const int lane = threadIdx.x % 32;
    const int64_t index = int64_t{blockIdx.x} * 8 + threadIdx.x / 32;
    if (index >= int64_t{c.lines} * c.rows) return;
    const Line<E> line(c, static_cast<int32_t>(index / c.rows));
    const int32_t row = static_cast<int32_t>(index % c.rows);
    const E *o = line.o(row), *dO = beside<E>(g.dO, o, c.o);
    float sum = 0;
    for (int e = lane; e < c.dv; e += 32) sum = fmaf(static_cast<float>(o[e]), static_cast<float>(dO[e]), sum);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFF, sum, step);
    if (lane > 0) return;
    const float lse =
        c.lse[((int64_t{line.batch} * c.heads + line.head) * c.group + row % c.group) * c.N + row / c.group];
    g.lse2[index] = lse == minus_infinity ? 0.0f : lse * 1.4426950408889634f;
    g.D[index] = sum;
}

// The first row that sees key j.
__device__ __forceinline__ int32_t first_row(const Call& c, int32_t j) {
    return c.causal ? max(0, j - (c.M - c.N)) * c.group : 0;
}

// ---- 16-bit types: tensor cores ----

template <int D>
struct GradTile {
    static constexpr int threads = 128, own = 64, other = 32;  // rows that the block has, rows that pass by
    static constexpr int columns = D < 128 ? D : 128, parts = D / columns;  // of dk and dv in a block
    static constexpr int bytes = 2 * (own + other) * D * 2 + 3 * other * 4;
};

// dq of 64 rows: K and V pass by.
template <class E, int D>
__global__ __launch_bounds__(GradTile<D>::threads) void dq_mma(const __grid_constant__ Gradient g) {
    using T = GradTile<D>;
    constexpr int NS = T::other / 8;
    extern __shared__ __align__(128) unsigned char memory[];
    E *q = reinterpret_cast<E*>(memory), *dO = q + T::own * D, *k = dO + T::own * D, *v = k + T::other * D;
    const Call& c = g.c;
    const Line<E> line(c, static_cast<int32_t>(blockIdx.x % c.lines));
    const int32_t tiles = (c.rows + T::own - 1) / T::own,
                  row0 = (tiles - 1 - static_cast<int32_t>(blockIdx.x / c.lines)) * T::own;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, pair = 2 * (lane % 4), own = 16 * warp;
    const int32_t rows = min(T::own, c.rows - row0), last = line.limit(row0 + rows - 1), full = line.limit(row0);
    load_rows<E, D, T::own, T::threads>(q, c.d, c.aligned_q, rows, [&](int i) { return line.q(row0 + i); });
    load_rows<E, D, T::own, T::threads>(dO, c.dv, g.aligned_dO, rows,
                                        [&](int i) { return beside<E>(g.dO, line.o(row0 + i), c.o); });
    float dq[D / 8][4] = {}, lse2[2], sum[2];
    int32_t limit[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int32_t row = min(row0 + own + lane / 4 + 8 * i, c.rows - 1);
        const int64_t at = int64_t{line.line} * c.rows + row;
        lse2[i] = g.lse2[at], sum[i] = g.D[at], limit[i] = line.limit(row);
    }
    for (int32_t j = 0; j < last; j += T::other) {
        __syncthreads();
        const int32_t count = min(T::other, last - j);
        load_rows<E, D, T::other, T::threads>(k, c.d, c.aligned_kv, count,
                                              [&](int i) { return line.k() + (j + i) * c.k_stride[2]; });
        load_rows<E, D, T::other, T::threads>(v, c.dv, c.aligned_kv, count,
                                              [&](int i) { return line.v() + (j + i) * c.v_stride[2]; });
        cp_async_commit();
        cp_async_wait<0>();
        __syncthreads();
        float s[NS][4] = {}, dp[NS][4] = {};
#pragma unroll
        for (int ks = 0; ks < D / 16; ++ks) {
            uint32_t a[4];
            load_a<D>(a, shared_address(q), own, ks);
            add_scores<E, D>(s, a, shared_address(k), 0, ks);
            load_a<D>(a, shared_address(dO), own, ks);
            add_scores<E, D>(dp, a, shared_address(v), 0, ks);
        }
        const bool mask = j + T::other > min(full, last);
#pragma unroll
        for (int n = 0; n < NS; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const float p = exp2_fast(fmaf(s[n][e], c.scale_log2, -lse2[e / 2]));
                s[n][e] = mask && j + 8 * n + pair + e % 2 >= limit[e / 2] ? 0.0f : p * (dp[n][e] - sum[e / 2]);
            }
        }
        add_weighed<E, D>(dq, s, shared_address(k), 0);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int32_t row = row0 + own + lane / 4 + 8 * i;
        if (row >= c.rows) continue;
        E* to = beside<E>(g.dq, line.q(row), c.q);
#pragma unroll
        for (int n = 0; n < D / 8; ++n)
            store_pair(to, 8 * n + pair, c.d, dq[n][2 * i] * g.scale, dq[n][2 * i + 1] * g.scale);
    }
}

// dk and dv of 64 keys, up to 128 columns: Q and dO pass by. Scores with keys down and queries across, so that they are
// A operands.
template <class E, int D>
__global__ __launch_bounds__(GradTile<D>::threads) void dkv_mma(const __grid_constant__ Gradient g) {
    using T = GradTile<D>;
    constexpr int NS = T::other / 8, NO = T::columns / 8;
    extern __shared__ __align__(128) unsigned char memory[];
    E *k = reinterpret_cast<E*>(memory), *v = k + T::own * D, *q = v + T::own * D, *dO = q + T::other * D;
    float *lse2 = reinterpret_cast<float*>(dO + T::other * D), *sum = lse2 + T::other;
    int32_t* limit = reinterpret_cast<int32_t*>(sum + T::other);
    const Call& c = g.c;
    const Line<E> line(c, static_cast<int32_t>(blockIdx.x % c.lines));
    const int32_t rest = static_cast<int32_t>(blockIdx.x / c.lines), key0 = rest / T::parts * T::own,
                  column0 = rest % T::parts * T::columns;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, pair = 2 * (lane % 4), own = 16 * warp;
    const int32_t keys = min(T::own, c.M - key0);
    load_rows<E, D, T::own, T::threads>(k, c.d, c.aligned_kv, keys,
                                        [&](int i) { return line.k() + (key0 + i) * c.k_stride[2]; });
    load_rows<E, D, T::own, T::threads>(v, c.dv, c.aligned_kv, keys,
                                        [&](int i) { return line.v() + (key0 + i) * c.v_stride[2]; });
    float dk[NO][4] = {}, dv[NO][4] = {};
    for (int32_t row0 = first_row(c, key0); row0 < c.rows; row0 += T::other) {
        __syncthreads();
        const int32_t count = min(T::other, c.rows - row0);
        load_rows<E, D, T::other, T::threads>(q, c.d, c.aligned_q, count, [&](int i) { return line.q(row0 + i); });
        load_rows<E, D, T::other, T::threads>(dO, c.dv, g.aligned_dO, count,
                                              [&](int i) { return beside<E>(g.dO, line.o(row0 + i), c.o); });
        cp_async_commit();
        if (threadIdx.x < T::other) {
            const int i = threadIdx.x;
            const int64_t at = int64_t{line.line} * c.rows + row0 + i;
            const bool real = i < count;
            lse2[i] = real ? g.lse2[at] : 0.0f, sum[i] = real ? g.D[at] : 0.0f,
            limit[i] = real ? line.limit(row0 + i) : 0;
        }
        cp_async_wait<0>();
        __syncthreads();
        float s[NS][4] = {}, dp[NS][4] = {};
#pragma unroll
        for (int ks = 0; ks < D / 16; ++ks) {
            uint32_t a[4];
            load_a<D>(a, shared_address(k), own, ks);
            add_scores<E, D>(s, a, shared_address(q), 0, ks);
            load_a<D>(a, shared_address(v), own, ks);
            add_scores<E, D>(dp, a, shared_address(dO), 0, ks);
        }
#pragma unroll
        for (int n = 0; n < NS; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int i = 8 * n + pair + e % 2;
                const float p = key0 + own + lane / 4 + 8 * (e / 2) < limit[i]
                                    ? exp2_fast(fmaf(s[n][e], c.scale_log2, -lse2[i]))
                                    : 0.0f;
                s[n][e] = p, dp[n][e] = p * (dp[n][e] - sum[i]);
            }
        }
        add_weighed<E, D>(dv, s, shared_address(dO), 0, column0);
        add_weighed<E, D>(dk, dp, shared_address(q), 0, column0);
    }
    cp_async_wait<0>();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int32_t key = key0 + own + lane / 4 + 8 * i;
        if (key >= c.M) continue;
        E *to_k = beside<E>(g.dk, line.k() + key * c.k_stride[2], c.k),
          *to_v = beside<E>(g.dv, line.v() + key * c.v_stride[2], c.v);
#pragma unroll
        for (int n = 0; n < NO; ++n) {
            const int column = column0 + 8 * n + pair;
            store_pair(to_k, column, c.d, dk[n][2 * i] * g.scale, dk[n][2 * i + 1] * g.scale);
            store_pair(to_v, column, c.dv, dv[n][2 * i], dv[n][2 * i + 1]);
        }
    }
}

// ---- Float32: FMA units ----

// 256 threads in 16 × 16: thread (y, x) has rows y, y + 16 ... of its own tile, rows x, x + 16 ... of the tile that
// passes by.
template <int D>
struct FloatGradTile {
    static constexpr int threads = 256, B = D == 256 ? 16 : 32, T = B / 16, C = D / 64;
    static constexpr int row = D + 4, score_row = B + 4;
    static constexpr int bytes = 4 * (4 * B * row + 2 * B * score_row + 3 * B);
};

// Tiles in shared memory: own_a·other_aᵀ are the scores, own_b·other_bᵀ the gradients of the weights (dq: own are q and
// dO, other k and v; dk, dv: the other way round).
template <int D>
struct FloatTiles {
    using T = FloatGradTile<D>;
    float *own_a, *own_b, *other_a, *other_b, *weights, *gradients, *lse2, *sum;
    int32_t* limit;
    int x = threadIdx.x % 16, y = threadIdx.x / 16;

    __device__ explicit FloatTiles(float* memory)
        : own_a(memory),
          own_b(own_a + T::B * T::row),
          other_a(own_b + T::B * T::row),
          other_b(other_a + T::B * T::row),
          weights(other_b + T::B * T::row),
          gradients(weights + T::B * T::score_row),
          lse2(gradients + T::B * T::score_row),
          sum(lse2 + T::B),
          limit(reinterpret_cast<int32_t*>(sum + T::B)) {}

    template <class Row>
    __device__ void load(float* to, int columns, int32_t count, Row&& row) const {
        for (int at = threadIdx.x; at < T::B * D; at += T::threads) {
            const int i = at / D, e = at % D;
            to[i * T::row + e] = i < count && e < columns ? row(i)[e] : 0.0f;
        }
    }
    __device__ void load_sums(const Gradient& g, int32_t line, int32_t row0, int32_t count,
                              const Line<float>& l) const {
        const int i = threadIdx.x;
        if (i >= T::B) return;
        const int64_t at = int64_t{line} * g.c.rows + row0 + i;
        lse2[i] = i < count ? g.lse2[at] : 0.0f, sum[i] = i < count ? g.D[at] : 0.0f,
        limit[i] = i < count ? l.limit(row0 + i) : 0;
    }
    // P and dS to shared memory: [own][other].
    template <bool own_rows>
    __device__ void make_weights(float scale_log2, int32_t key0) const {
        float s[T::T][T::T] = {}, dp[T::T][T::T] = {};
        for (int e = 0; e < D; e += 4) {
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                float4 a[T::T], b[T::T];
#pragma unroll
                for (int i = 0; i < T::T; ++i) {
                    a[i] = *reinterpret_cast<const float4*>((part ? own_b : own_a) + (y + 16 * i) * T::row + e);
                    b[i] = *reinterpret_cast<const float4*>((part ? other_b : other_a) + (x + 16 * i) * T::row + e);
                }
#pragma unroll
                for (int i = 0; i < T::T; ++i) {
#pragma unroll
                    for (int n = 0; n < T::T; ++n) {
                        float& to = part ? dp[i][n] : s[i][n];
                        to = fmaf(a[i].x, b[n].x, to), to = fmaf(a[i].y, b[n].y, to), to = fmaf(a[i].z, b[n].z, to),
                        to = fmaf(a[i].w, b[n].w, to);
                    }
                }
            }
        }
#pragma unroll
        for (int i = 0; i < T::T; ++i) {
#pragma unroll
            for (int n = 0; n < T::T; ++n) {
                const int own = y + 16 * i, other = x + 16 * n, row = own_rows ? own : other;
                const float p =
                    key0 + (own_rows ? other : own) < limit[row] ? exp2f(fmaf(s[i][n], scale_log2, -lse2[row])) : 0.0f;
                weights[own * T::score_row + other] = p;
                gradients[own * T::score_row + other] = p * (dp[i][n] - sum[row]);
            }
        }
    }
    // out[own rows y + 16 i][columns 64 n + 4 x ...] += by · other.
    __device__ void add(float (&out)[T::T][T::C][4], const float* by, const float* other) const {
        for (int j = 0; j < T::B; ++j) {
#pragma unroll
            for (int n = 0; n < T::C; ++n) {
                const float4 f = *reinterpret_cast<const float4*>(other + j * T::row + 64 * n + 4 * x);
#pragma unroll
                for (int i = 0; i < T::T; ++i) {
                    const float w = by[(y + 16 * i) * T::score_row + j];
                    out[i][n][0] = fmaf(w, f.x, out[i][n][0]), out[i][n][1] = fmaf(w, f.y, out[i][n][1]);
                    out[i][n][2] = fmaf(w, f.z, out[i][n][2]), out[i][n][3] = fmaf(w, f.w, out[i][n][3]);
                }
            }
        }
    }
    template <class Row>
    __device__ void store(const float (&out)[T::T][T::C][4], float factor, int columns, int32_t count,
                          Row&& row) const {
#pragma unroll
        for (int i = 0; i < T::T; ++i) {
            if (y + 16 * i >= count) continue;
            float* to = row(y + 16 * i);
#pragma unroll
            for (int n = 0; n < T::C; ++n) {
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    if (64 * n + 4 * x + e < columns) to[64 * n + 4 * x + e] = out[i][n][e] * factor;
                }
            }
        }
    }
};

template <int D>
__global__ __launch_bounds__(256) void dq_float(const __grid_constant__ Gradient g) {
    using T = FloatGradTile<D>;
    extern __shared__ __align__(16) float floats[];
    const FloatTiles<D> t(floats);
    const Call& c = g.c;
    const Line<float> line(c, static_cast<int32_t>(blockIdx.x % c.lines));
    const int32_t tiles = (c.rows + T::B - 1) / T::B,
                  row0 = (tiles - 1 - static_cast<int32_t>(blockIdx.x / c.lines)) * T::B,
                  rows = min(T::B, c.rows - row0);
    t.load(t.own_a, c.d, rows, [&](int i) { return line.q(row0 + i); });
    t.load(t.own_b, c.dv, rows, [&](int i) { return beside<float>(g.dO, line.o(row0 + i), c.o); });
    t.load_sums(g, line.line, row0, rows, line);
    float dq[T::T][T::C][4] = {};
    const int32_t last = line.limit(row0 + rows - 1);
    for (int32_t j = 0; j < last; j += T::B) {
        __syncthreads();
        t.load(t.other_a, c.d, last - j, [&](int i) { return line.k() + (j + i) * c.k_stride[2]; });
        t.load(t.other_b, c.dv, last - j, [&](int i) { return line.v() + (j + i) * c.v_stride[2]; });
        __syncthreads();
        t.template make_weights<true>(c.scale_log2, j);
        __syncthreads();
        t.add(dq, t.gradients, t.other_a);
    }
    t.store(dq, g.scale, c.d, rows, [&](int i) { return beside<float>(g.dq, line.q(row0 + i), c.q); });
}

template <int D>
__global__ __launch_bounds__(256) void dkv_float(const __grid_constant__ Gradient g) {
    using T = FloatGradTile<D>;
    extern __shared__ __align__(16) float floats[];
    const FloatTiles<D> t(floats);
    const Call& c = g.c;
    const Line<float> line(c, static_cast<int32_t>(blockIdx.x % c.lines));
    const int32_t key0 = static_cast<int32_t>(blockIdx.x / c.lines) * T::B, keys = min(T::B, c.M - key0);
    t.load(t.own_a, c.d, keys, [&](int i) { return line.k() + (key0 + i) * c.k_stride[2]; });
    t.load(t.own_b, c.dv, keys, [&](int i) { return line.v() + (key0 + i) * c.v_stride[2]; });
    float dk[T::T][T::C][4] = {}, dv[T::T][T::C][4] = {};
    for (int32_t row0 = first_row(c, key0); row0 < c.rows; row0 += T::B) {
        const int32_t rows = min(T::B, c.rows - row0);
        __syncthreads();
        t.load(t.other_a, c.d, rows, [&](int i) { return line.q(row0 + i); });
        t.load(t.other_b, c.dv, rows, [&](int i) { return beside<float>(g.dO, line.o(row0 + i), c.o); });
        t.load_sums(g, line.line, row0, rows, line);
        __syncthreads();
        t.template make_weights<false>(c.scale_log2, key0);
        __syncthreads();
        t.add(dk, t.gradients, t.other_a);
        t.add(dv, t.weights, t.other_b);
    }
    t.store(dk, g.scale, c.d, keys,
            [&](int i) { return beside<float>(g.dk, line.k() + (key0 + i) * c.k_stride[2], c.k); });
    t.store(dv, 1.0f, c.dv, keys,
            [&](int i) { return beside<float>(g.dv, line.v() + (key0 + i) * c.v_stride[2], c.v); });
}

// ---- Launches ----

constexpr const char* grad_name = "flash_attention_grad";

void go(void (*kernel)(Gradient), const char* what, int64_t blocks, int threads, int bytes, const Gradient& g,
        cudaStream_t stream) {
    if (blocks >= int64_t{1} << 31) fail(grad_name, ": ", blocks, " blocks, expected below 2^31");
    if (blocks == 0) return;
    const dim3 grid(static_cast<unsigned>(blocks));
    launch(kernel, what, grid, static_cast<unsigned>(threads), static_cast<std::size_t>(bytes), 1, false, stream, g);
}

int64_t pieces(int64_t n, int each) { return (n + each - 1) / each; }

template <class E, int D>
void run(const Gradient& g, cudaStream_t stream) {
    const int64_t lines = g.c.lines;
    if constexpr (sizeof(E) == 4) {
        using T = FloatGradTile<D>;
        go(dq_float<D>, "launching dq_float", lines * pieces(g.c.rows, T::B), T::threads, T::bytes, g, stream);
        go(dkv_float<D>, "launching dkv_float", lines * pieces(g.c.M, T::B), T::threads, T::bytes, g, stream);
    } else {
        using T = GradTile<D>;
        go(dq_mma<E, D>, "launching dq_mma", lines * pieces(g.c.rows, T::own), T::threads, T::bytes, g, stream);
        go(dkv_mma<E, D>, "launching dkv_mma", lines * pieces(g.c.M, T::own) * T::parts, T::threads, T::bytes, g,
           stream);
    }
}

}  // namespace
}  // namespace softmax

std::size_t flash_attention_grad_workspace(const SoftmaxGradArgs& a) {
    softmax::check_args(softmax::grad_name, a.in);
    return 2 * sizeof(float) * static_cast<std::size_t>(a.in.B * a.in.H * a.in.N * a.in.group);
}

void flash_attention_grad(const SoftmaxGradArgs& a, cudaStream_t stream) {
    using namespace softmax;
    const std::size_t need = flash_attention_grad_workspace(a);
    if (a.in.workspace.bytes < need)
        fail(grad_name, ": a workspace of ", a.in.workspace.bytes, " bytes, expected ", need);
    if (a.in.B == 0 || a.in.H == 0) return;
    if (a.in.N > 0 && !a.in.lse) fail(grad_name, ": no lse, expected that of the forward pass");
    SoftmaxArgs in = a.in, with_dO = a.in;
    in.workspace = {};
    with_dO.q = a.dO, with_dO.q_stride = in.o_stride, with_dO.d = in.dv;
    Gradient g{call_of(in, 1, 64),
               a.dO,
               a.dq,
               a.dk,
               a.dv,
               static_cast<float*>(a.in.workspace.data),
               nullptr,
               in.scale,
               call_of(with_dO, 1, 64).aligned_q};
    g.D = g.lse2 + int64_t{g.c.lines} * g.c.rows;
    const int width = std::max(in.d, in.dv);
    visit(in.type, [&](auto e) {
        using E = decltype(e);
        go(row_sums<E>, "launching row_sums", pieces(int64_t{g.c.lines} * g.c.rows, 8), 256, 0, g, stream);
        if (width <= 64) softmax::run<E, 64>(g, stream);
        else if (width <= 128) run<E, 128>(g, stream);
        else run<E, 256>(g, stream);
    });
}

}  // namespace causeway::gpu
