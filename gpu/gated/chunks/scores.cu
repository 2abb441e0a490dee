// What needs no state: the scores of every chunk, and the inverses of the delta rule.
#include <type_traits>

#include "gpu/gated/chunks/sweep.cuh"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::gated {

namespace {

constexpr int score_threads = 256;

template <int DK, int C, Gates gates>
struct ScoreShared {
    static constexpr bool per_channel = gates == Gates::channel;
    float L[C * (C + 4)];
    float K[C * DK], X[C * DK];  // without a gate per channel rows are swizzled
    // The gates, [token][channel], or Λ where it is a matrix.
    float decay[per_channel ? C * DK : 1], lambda[per_channel ? 1 : C * (C + 4)];
    float a[C], beta[C];
};

// Gates of a chunk of n tokens as factors, and β; 1 and 0 past the end and where there is none.
template <int DK, int C, Gates gates>
__device__ __forceinline__ void load_gates(ScoreShared<DK, C, gates>& s, const Call& call, int64_t bh, int64_t start,
                                           int n) {
    if constexpr (gates == Gates::channel) {
        const float* g = call.g + (bh * call.N + start) * call.gates;
        move<C * DK, score_threads>(
            [&](int i) {
                const int t = i / DK, c = i % DK;
                return t < n && c < call.dk ? g[static_cast<int64_t>(t) * call.gates + c] : 0.0f;
            },
            [&](int i, float f) { s.decay[i] = expf(f); });
    }
    if (threadIdx.x < C) {
        const int t = threadIdx.x;
        s.a[t] = gates == Gates::head && t < n ? expf(call.g[bh * call.N + start + t]) : 1.0f;
        s.beta[t] = call.beta && t < n ? call.beta[bh * call.N + start + t] : 0.0f;
    }
}

// Column j of Λ: the products of the gates after j up to and with each token from j on.
template <int C>
__device__ __forceinline__ void write_lambda(float* lambda, const float (&a)[C], int j) {
    float f = 1.0f;
    for (int t = j; t < C; ++t) {
        if (t > j) f *= a[t];
        lambda[t * (C + 4) + j] = f;
    }
}

// With a gate per head: e and w of every token, a thread each.
template <int C>
__device__ __forceinline__ void write_head_gates(float* to, const float (&a)[C]) {
    float e = 1.0f, w = 1.0f;
    for (int t = 0; t < C; ++t) {
        if (t <= static_cast<int>(threadIdx.x)) e *= a[t];
        else w *= a[t];
    }
    to[threadIdx.x] = e, to[C + threadIdx.x] = w;
}

// L = Λ ⊙ X Kᵀ, on the diagonal too where wanted, 0 above it within 16 columns. With a gate per channel: two columns j
// to a warp, 16 lanes each, which go down the rows t >= j: lane rg has Λ_tj ⊙ k_j at its DK/16 channels, one gate
// multiplied on at each row.
template <int DK, int C>
__device__ __forceinline__ void score_columns(ScoreShared<DK, C, Gates::channel>& s, const float* X, bool diagonal) {
    constexpr int R = DK / 16, warps = score_threads / 32;
    const int rg = threadIdx.x % 16;
    for (int pair = threadIdx.x / 32; pair < C / 2; pair += warps) {
        const int j = 2 * pair + threadIdx.x % 32 / 16;
        float k[R];
#pragma unroll
        for (int m = 0; m < R / 4; ++m) {
            const float4 f = *reinterpret_cast<const float4*>(s.K + j * DK + rg * 4 + 64 * m);
            k[4 * m] = f.x, k[4 * m + 1] = f.y, k[4 * m + 2] = f.z, k[4 * m + 3] = f.w;
        }
        for (int first = pair / 8 * 16; first < C; first += 16) {
            float sum[16];
#pragma unroll
            for (int i = 0; i < 16; ++i) {
                const int t = first + i;
                float x = 0.0f;
#pragma unroll
                for (int m = 0; m < R / 4; ++m) {
                    const float4 f = *reinterpret_cast<const float4*>(X + t * DK + rg * 4 + 64 * m);
                    const float4 a = *reinterpret_cast<const float4*>(s.decay + t * DK + rg * 4 + 64 * m);
                    if (t > j) k[4 * m] *= a.x, k[4 * m + 1] *= a.y, k[4 * m + 2] *= a.z, k[4 * m + 3] *= a.w;
                    x = fmaf(f.w, k[4 * m + 3],
                             fmaf(f.z, k[4 * m + 2], fmaf(f.y, k[4 * m + 1], fmaf(f.x, k[4 * m], x))));
                }
                sum[i] = x;
            }
            const float score = fold(sum, rg);
            const int t = first + rg;
            s.L[t * (C + 4) + j] = t > j || (t == j && diagonal) ? score : 0.0f;
        }
    }
}

// The same where Λ is a matrix, on tensor cores (gpu/kit/tf32.cuh): a tile of 16×8 to a warp. A score that is not
// finite is made again on FMA units: an infinity times hi + lo is a NaN.
template <int DK, int C, Gates gates>
__device__ __forceinline__ void score_columns(ScoreShared<DK, C, gates>& s, const float* X, bool diagonal) {
    using Rows = SwizzledRows<DK>;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    // Row blocks i of 16 have 2 i + 2 tiles on and below the diagonal.
    for (int tile = threadIdx.x / 32; tile < C / 16 * (C / 16 + 1); tile += score_threads / 32) {
        const int i = tile < 2 ? 0 : 1, first_row = 16 * i, first_column = 8 * (tile - 2 * i);
        float sum[2][4] = {};
#pragma unroll 4
        for (int k = 0; k < DK; k += 8) {
            const auto pair = [&](const float* rows, int row) {
                return *reinterpret_cast<const float2*>(rows + Rows::at(row, k + 2 * t));
            };
            const float2 x = pair(X, first_row + g), below = pair(X, first_row + g + 8),
                         y = pair(s.K, first_column + g);
            tf32::multiply(sum[k / 8 % 2], tf32::left_of(float4{x.x, x.y, below.x, below.y}), tf32::right_of(y.x, y.y));
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int row = first_row + g + e / 2 * 8, j = first_column + 2 * t + e % 2;
            float x = sum[0][e] + sum[1][e];
            if (!is_finite(x)) {
                x = 0.0f;
                for (int c = 0; c < DK; ++c) x = fmaf(X[Rows::at(row, c)], s.K[Rows::at(j, c)], x);
            }
            const bool there = row > j || (row == j && diagonal);
            s.L[row * (C + 4) + j] = there ? x * s.lambda[row * (C + 4) + j] : 0.0f;
        }
    }
}

// A matrix to memory, without its blocks above the diagonal.
template <int C>
__device__ __forceinline__ void write_lower(float* to, const float* L) {
    for (int i = threadIdx.x; i < C * C / 4; i += score_threads) {
        const int t = i / (C / 4), c = i % (C / 4) * 4;
        if (c / 16 <= t / 16)
            *reinterpret_cast<float4*>(to + t * C + c) = *reinterpret_cast<const float4*>(L + t * (C + 4) + c);
    }
}

// A column of an inverse to a lane, by substitution: y_t = [t = column] - Σ_{j<t} M_tj x_j with x = β y, which is
// (I + M diag(β))⁻¹, or with β_t M_tj and x = y, which is (I + diag(β) M)⁻¹.
template <int C>
__device__ __forceinline__ void write_inverse(float* to, const float* M, const float* beta, bool beta_right, int lane) {
    float x[C];
#pragma unroll
    for (int t = 0; t < C; ++t) {
        float sum[4] = {};
#pragma unroll
        for (int j = 0; j < t; j += 4) {
            const float4 l = *reinterpret_cast<const float4*>(M + t * (C + 4) + j);
            sum[0] = fmaf(l.x, x[j], sum[0]);
            if (j + 1 < t) sum[1] = fmaf(l.y, x[j + 1], sum[1]);
            if (j + 2 < t) sum[2] = fmaf(l.z, x[j + 2], sum[2]);
            if (j + 3 < t) sum[3] = fmaf(l.w, x[j + 3], sum[3]);
        }
        const float all = (sum[0] + sum[1]) + (sum[2] + sum[3]),
                    found = (t == lane ? 1.0f : 0.0f) - (beta_right ? all : beta[t] * all);
        if (lane / 16 <= t / 16) to[t * C + lane] = found;
        x[t] = beta_right ? beta[t] * found : found;
    }
}

// One block: one chunk of one batch-head.
template <int DK, int C, Gates gates>
__global__ __launch_bounds__(score_threads, 3) void gated_scores(const __grid_constant__ Part p) {
    extern __shared__ __align__(16) unsigned char shared[];
    auto& s = *reinterpret_cast<ScoreShared<DK, C, gates>*>(shared);
    using Rows = std::conditional_t<gates == Gates::channel, PlainRows<DK>, SwizzledRows<DK>>;
    const Call& call = p.call;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int64_t bh = blockIdx.x / p.chunks, chunk = blockIdx.x % p.chunks, b = bh / call.heads, h = bh % call.heads;
    const int64_t start = p.first + chunk * C;
    const int n = static_cast<int>(min(p.first + p.tokens - start, int64_t{C}));
    float* out = p.scores + (bh * p.chunks + chunk) * p.floats;
    const auto load = [&](float* to, const Operand& x, int64_t head) {
        load_tile<DK, C, score_threads, Rows>(to, head_of(x, b, head) + start * x.token, x, n, call);
    };
    load(s.K, call.k, h);
    load_gates(s, call, bh, start, n);
    __syncthreads();
    if (gates == Gates::head && threadIdx.x < C) write_head_gates(out + p.floats - 2 * C, s.a);
    if constexpr (gates != Gates::channel) {
        constexpr int last_threads = score_threads - C;
        if (threadIdx.x >= last_threads) write_lambda<C>(s.lambda, s.a, threadIdx.x - last_threads);
    }

    // Query -1 stands for the keys, whose scores with themselves the delta rule needs.
    for (int query = p.matrices > 0 ? -1 : 0; query < call.group; ++query) {
        const float* X = s.K;
        if (query >= 0) {
            load(s.X, call.q, h * call.group + query);
            X = s.X;
        }
        __syncthreads();
        score_columns(s, X, query >= 0);
        __syncthreads();
        if (query >= 0 || p.matrices == 3) write_lower<C>(out + (query >= 0 ? p.matrices + query : 2) * C * C, s.L);
        if (query < 0 && warp < min(p.matrices, 2) && lane < C)
            write_inverse<C>(out + warp * C * C, s.L, s.beta, warp == 0, lane);
        __syncthreads();
    }
}

template <int DK, int C, Gates gates>
void scores(const Part& p, cudaStream_t stream) {
    const dim3 grid(static_cast<unsigned>(p.call.all_heads * p.chunks));
    launch(gated_scores<DK, C, gates>, "launching gated_scores", grid, score_threads, sizeof(ScoreShared<DK, C, gates>),
           1, false, stream, p);
}

}  // namespace

void launch_scores(const Part& p, cudaStream_t stream) {
    with_sizes(p.call, [&]<int DK, int C, Gates gates>() { scores<DK, C, gates>(p, stream); });
}

}  // namespace causeway::gpu::gated
