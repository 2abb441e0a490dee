#include "gpu/exact/prefix_states.hpp"

#include <algorithm>

#include "gpu/exact/factor.cuh"
#include "gpu/kit/element.cuh"

namespace causeway::gpu::prefix {

namespace {

using std::int64_t;

constexpr int threads = 256, ranks = 4,
              tokens = 4;  // ranks of a thread; tokens whose k and v are on their way together

// A token of a batch-head.
template <class E>
__device__ __forceinline__ E* token_of(E* x, const Strides& s, int64_t bh, int32_t heads, int64_t token) {
    return x + bh / heads * s.batch + bh % heads * s.head + token * s.token;
}

struct Walk {
    const void *k, *v;
    Strides k_stride, v_stride;
    Part part;
    int64_t segments;
    int r, d;
    pieces::BatchHeads batch_heads;
};

// One column of four rows of the state through one segment; every state is kept, or only what the segment adds.
template <class E, bool keep>
__global__ __launch_bounds__(threads) void walk(const __grid_constant__ Walk w, const float* before, float* to,
                                                float* last) {
    const int64_t groups = (w.r + ranks - 1) / ranks, x = blockIdx.x * int64_t{threads} + threadIdx.x,
                  bh = x / (w.d * groups) / w.segments;
    if (bh >= w.batch_heads.count) return;
    const int j = static_cast<int>(x % w.d), e0 = static_cast<int>(x / w.d % groups) * ranks;
    const int64_t segment = x / (w.d * groups) % w.segments, whole = w.batch_heads.first + bh,
                  state = int64_t{w.r} * w.d;
    const int64_t from = segment * w.part.length, n = min(w.part.length, w.part.tokens - from);
    const E* const K =
        token_of(static_cast<const E*>(w.k), w.k_stride, whole, w.batch_heads.heads, w.part.first + from);
    const E* const V =
        token_of(static_cast<const E*>(w.v), w.v_stride, whole, w.batch_heads.heads, w.part.first + from) + j;
    int row[ranks];
#pragma unroll
    for (int i = 0; i < ranks; ++i) row[i] = min(e0 + i, w.r - 1);
    Factor gamma(exp2(w.batch_heads.log2_gamma[bh]), static_cast<uint32_t>(w.part.first + from));
    float S[ranks] = {};
    if (keep) {
#pragma unroll
        for (int i = 0; i < ranks; ++i) S[i] = before[(bh * w.segments + segment) * state + row[i] * w.d + j];
        to += (bh * w.part.tokens + from) * state + j;
    } else {
        to += (bh * w.segments + segment) * state + j;
    }
    for (int64_t t0 = 0; t0 < n; t0 += tokens) {
        float k[tokens][ranks], v[tokens];
#pragma unroll
        for (int t = 0; t < tokens; ++t) {
            const int64_t at = min(t0 + t, n - 1);
            v[t] = static_cast<float>(V[at * w.v_stride.token]);
#pragma unroll
            for (int i = 0; i < ranks; ++i) k[t][i] = static_cast<float>(K[at * w.k_stride.token + row[i]]);
        }
#pragma unroll
        for (int t = 0; t < tokens; ++t) {
            if (t0 + t >= n) break;
            const float g = gamma.next();
#pragma unroll
            for (int i = 0; i < ranks; ++i) {
                S[i] = fmaf(g, S[i], k[t][i] * v[t]);
                if (keep && e0 + i < w.r) to[(t0 + t) * state + (e0 + i) * w.d] = S[i];
            }
        }
    }
    const bool hands_over = keep && last && segment + 1 == w.segments;
#pragma unroll
    for (int i = 0; i < ranks; ++i) {
        if (e0 + i >= w.r) continue;
        if (!keep) to[(e0 + i) * w.d] = S[i];
        if (hands_over) last[bh * state + (e0 + i) * w.d + j] = S[i];
    }
}

template <bool keep>
void run_walk(const CausalArgs& a, const pieces::BatchHeads& l, const Part& part, const float* before, float* to,
              float* last, cudaStream_t stream) {
    const Walk w{a.k, a.v, a.k_stride, a.v_stride, part, part.segments(), a.r, a.d, l};
    const int64_t all = l.count * w.segments * ((a.r + ranks - 1) / ranks) * a.d;
    visit(a.type, [&](auto zero) {
        walk<decltype(zero), keep>
            <<<static_cast<unsigned>((all + threads - 1) / threads), threads, 0, stream>>>(w, before, to, last);
    });
}

struct Read {
    const void* q;
    void* o;
    Strides q_stride, o_stride;
    int64_t first, tokens, batch_heads, first_bh;
    int r, d, heads;
};

// A block to a token, every eighth row of its state to a warp, columns to its lanes: C of them.
template <class E, int C>
__global__ __launch_bounds__(threads) void read(const __grid_constant__ Read w, const float* S) {
    constexpr int warps = threads / 32;
    __shared__ float sums[warps][32 * C];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int64_t x = blockIdx.x; x < w.batch_heads * w.tokens; x += gridDim.x) {
        const int64_t token = w.first + x % w.tokens, bh = w.first_bh + x / w.tokens;
        const E* const q = token_of(static_cast<const E*>(w.q), w.q_stride, bh, w.heads, token);
        E* const o = token_of(static_cast<E*>(w.o), w.o_stride, bh, w.heads, token);
        const float* const state = S + x * w.r * w.d;
        float sum[C] = {};
#pragma unroll 4
        for (int e = warp; e < w.r; e += warps) {
            const float qe = static_cast<float>(q[e]);
#pragma unroll
            for (int c = 0; c < C; ++c) {
                const int j = 32 * c + lane;
                sum[c] = fmaf(qe, state[e * w.d + (j < w.d ? j : 0)], sum[c]);
            }
        }
#pragma unroll
        for (int c = 0; c < C; ++c) sums[warp][32 * c + lane] = sum[c];
        __syncthreads();
        if (static_cast<int>(threadIdx.x) < w.d) {
            float all = 0;
            for (int i = 0; i < warps; ++i) all += sums[i][threadIdx.x];
            o[threadIdx.x] = static_cast<E>(all);
        }
        __syncthreads();
    }
}

}  // namespace

void segment_sums(const CausalArgs& a, const pieces::BatchHeads& l, const Part& part, float* D, cudaStream_t stream) {
    run_walk<false>(a, l, part, nullptr, D, nullptr, stream);
    check_launch("launching segment_sums");
}

void states(const CausalArgs& a, const pieces::BatchHeads& l, const Part& part, const float* before, float* S,
            float* last, cudaStream_t stream) {
    run_walk<true>(a, l, part, before, S, last, stream);
    check_launch("launching states");
}

void outputs(const CausalArgs& a, const pieces::BatchHeads& l, const Part& part, const float* S, cudaStream_t stream) {
    const Read w{a.q, a.o, a.q_stride, a.o_stride, part.first, part.tokens, l.count, l.first, a.r, a.d, l.heads};
    const auto blocks = static_cast<unsigned>(std::min<int64_t>(l.count * part.tokens, int64_t{1} << 24));
    visit(a.type, [&](auto zero) {
        using E = decltype(zero);
        if (a.d <= 32) read<E, 1><<<blocks, threads, 0, stream>>>(w, S);
        else if (a.d <= 64) read<E, 2><<<blocks, threads, 0, stream>>>(w, S);
        else if (a.d <= 128) read<E, 4><<<blocks, threads, 0, stream>>>(w, S);
        else read<E, 8><<<blocks, threads, 0, stream>>>(w, S);
    });
    check_launch("launching outputs");
}

}  // namespace causeway::gpu::prefix
