// What needs no state: the scores of every chunk, and the inverses of the delta rule.
#include "gpu/gated/chunks.hpp"
#include "gpu/gated/fma.cuh"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::gated {

namespace {

constexpr int score_threads = 256;

template <int DK, int C>
struct ScoreShared {
    float K[C * DK], X[C * DK], decay[C * DK];
    float L[C * (C + 4)];
    float a[C], beta[C];
};

// Gates of a chunk of n tokens as factors, and β; 1 and 0 past the end and where there is none.
template <int DK, int C>
__device__ __forceinline__ void load_gates(ScoreShared<DK, C>& s, const Call& call, int64_t bh, int64_t start, int n) {
    const bool per_channel = call.gates > 1, per_head = call.gates == 1;
    if (per_channel) {
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
        s.a[t] = per_head && t < n ? expf(call.g[bh * call.N + start + t]) : 1.0f;
        s.beta[t] = call.beta && t < n ? call.beta[bh * call.N + start + t] : 0.0f;
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

// L = Λ ⊙ X Kᵀ, on the diagonal too where wanted, 0 above it within 16 columns. Two columns j to a warp, 16 lanes each,
// which go down the rows t >= j: lane rg has Λ_tj ⊙ k_j at its DK/16 channels, one gate multiplied on at each row.
template <int DK, int C>
__device__ __forceinline__ void score_columns(ScoreShared<DK, C>& s, const float* X, bool per_channel, bool diagonal,
                                              int warp, int lane) {
    constexpr int R = DK / 16, warps = score_threads / 32;
    const int rg = lane % 16;
    for (int pair = warp; pair < C / 2; pair += warps) {
        const int j = 2 * pair + lane / 16;
        float k[R], decayed = 1.0f;
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
                    if (per_channel) {
                        const float4 a = *reinterpret_cast<const float4*>(s.decay + t * DK + rg * 4 + 64 * m);
                        if (t > j) k[4 * m] *= a.x, k[4 * m + 1] *= a.y, k[4 * m + 2] *= a.z, k[4 * m + 3] *= a.w;
                    }
                    x = fmaf(f.w, k[4 * m + 3],
                             fmaf(f.z, k[4 * m + 2], fmaf(f.y, k[4 * m + 1], fmaf(f.x, k[4 * m], x))));
                }
                if (t > j) decayed *= s.a[t];
                sum[i] = x * decayed;
            }
            const float score = fold(sum, rg);
            const int t = first + rg;
            s.L[t * (C + 4) + j] = t > j || (t == j && diagonal) ? score : 0.0f;
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
template <int DK, int C>
__global__ __launch_bounds__(score_threads, 3) void gated_scores(const __grid_constant__ Part p) {
    extern __shared__ __align__(16) unsigned char shared[];
    auto& s = *reinterpret_cast<ScoreShared<DK, C>*>(shared);
    const Call& call = p.call;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int64_t bh = blockIdx.x / p.chunks, chunk = blockIdx.x % p.chunks, b = bh / call.heads, h = bh % call.heads;
    const int64_t start = p.first + chunk * C;
    const int n = static_cast<int>(min(p.first + p.tokens - start, int64_t{C}));
    float* out = p.scores + (bh * p.chunks + chunk) * p.floats;
    const bool per_channel = call.gates > 1, per_head = call.gates == 1;
    const auto load = [&](float* to, const Operand& x, int64_t head) {
        load_rows<DK, C, score_threads>(to, head_of(x, b, head) + start * x.token, x.token, n, call.dk, x.quads,
                                        call.type);
    };
    load(s.K, call.k, h);
    load_gates(s, call, bh, start, n);
    __syncthreads();
    if (per_head && threadIdx.x < C) write_head_gates(out + p.floats - 2 * C, s.a);

    // Query -1 stands for the keys, whose scores with themselves the delta rule needs.
    for (int query = p.matrices > 0 ? -1 : 0; query < call.group; ++query) {
        const float* X = s.K;
        if (query >= 0) {
            load(s.X, call.q, h * call.group + query);
            X = s.X;
        }
        __syncthreads();
        score_columns(s, X, per_channel, query >= 0, warp, lane);
        __syncthreads();
        if (query >= 0 || p.matrices == 3) write_lower<C>(out + (query >= 0 ? p.matrices + query : 2) * C * C, s.L);
        if (query < 0 && warp < min(p.matrices, 2) && lane < C)
            write_inverse<C>(out + warp * C * C, s.L, s.beta, warp == 0, lane);
        __syncthreads();
    }
}

template <int DK, int C>
void scores(const Part& p, cudaStream_t stream) {
    const dim3 grid(static_cast<unsigned>(p.call.all_heads * p.chunks));
    launch(gated_scores<DK, C>, "launching gated_scores", grid, score_threads, sizeof(ScoreShared<DK, C>), 1, false,
           stream, p);
}

}  // namespace

void launch_scores(const Part& p, cudaStream_t stream) {
    const int rows = padded_rows(p.call.dk);
    if (rows == 256) return scores<256, 16>(p, stream);
    if (p.C == 16) return rows == 64 ? scores<64, 16>(p, stream) : scores<128, 16>(p, stream);
    rows == 64 ? scores<64, 32>(p, stream) : scores<128, 32>(p, stream);
}

}  // namespace causeway::gpu::gated
