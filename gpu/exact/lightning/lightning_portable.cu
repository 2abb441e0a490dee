// Lightning Attention-2 for every other device, shape and stride: the same chunks on FMA units, in Float32.
#include <cmath>

#include "gpu/exact/lightning/call.hpp"
#include "gpu/kit/element.cuh"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::la {

namespace {

constexpr int portable_chunk = 32, portable_columns = 32, portable_threads = 256;

struct Portable {
    const void *q, *k, *v;
    void* o;
    int64_t q_stride[3], k_stride[3], v_stride[3], o_stride[3];  // batch, head, token
    float* state;                                                // null: none
    int64_t state_batch, N;
    int32_t r, d, heads;
    bool reversed;
    float log2_gamma[max_heads];
};

// Shared memory in floats: q and k of a chunk with rows padded to an odd length, v, scores, the state.
__host__ __device__ constexpr int portable_row(int r) { return r | 1; }
__host__ __device__ constexpr int portable_floats(int r) {
    return 2 * portable_chunk * portable_row(r) + portable_chunk * portable_columns +
           portable_chunk * (portable_chunk + 1) + r * portable_columns;
}

// One block: 32 columns of v of one head, chunks of 32 tokens one after the other, the r × 32 state in shared memory.
// Reversed, the tokens are counted from the last.
template <class E>
__global__ __launch_bounds__(portable_threads) void la_portable(const __grid_constant__ Portable a) {
    extern __shared__ float shared[];
    constexpr int C = portable_chunk, W = portable_columns, warps = portable_threads / 32;
    const int row = portable_row(a.r), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float *q = shared, *k = q + C * row, *v = k + C * row, *scores = v + C * W, *S = scores + C * (C + 1);
    const int64_t h = blockIdx.x % a.heads, b = blockIdx.x / a.heads;
    const int column = blockIdx.y * W + lane;
    const auto at = [&](const void* p, const int64_t(&s)[3]) { return static_cast<const E*>(p) + b * s[0] + h * s[1]; };
    const E *Q = at(a.q, a.q_stride), *K = at(a.k, a.k_stride), *V = at(a.v, a.v_stride);
    E* O = const_cast<E*>(at(a.o, a.o_stride));
    const float log2_gamma = a.log2_gamma[h];
    const auto power = [&](int n) { return n == 0 ? 1.0f : exp2f(log2_gamma * static_cast<float>(n)); };
    const auto token = [&](int64_t t) { return a.reversed ? a.N - 1 - t : t; };
    float* state = a.state ? a.state + b * a.state_batch + h * a.r * a.d + column : nullptr;
    const bool keeps = state && column < a.d;
    for (int i = warp; i < a.r; i += warps) S[i * W + lane] = keeps ? state[i * a.d] : 0.0f;
    for (int64_t start = 0; start < a.N; start += C) {
        const int n = static_cast<int>(a.N - start < C ? a.N - start : C);
        __syncthreads();
        for (int t = warp; t < C; t += warps) {
            for (int i = lane; i < a.r; i += 32) {
                q[t * row + i] = t < n ? static_cast<float>(Q[token(start + t) * a.q_stride[2] + i]) : 0.0f;
                k[t * row + i] = t < n ? static_cast<float>(K[token(start + t) * a.k_stride[2] + i]) : 0.0f;
            }
            v[t * W + lane] =
                t < n && column < a.d ? static_cast<float>(V[token(start + t) * a.v_stride[2] + column]) : 0.0f;
        }
        __syncthreads();
        for (int t = warp; t < n; t += warps) {  // lane: the earlier token
            float s = 0.0f;
            for (int i = 0; i < a.r; ++i) s = fmaf(q[t * row + i], k[lane * row + i], s);
            scores[t * (C + 1) + lane] = lane <= t ? s * power(t - lane) : 0.0f;
        }
        __syncthreads();
        for (int t = warp; t < n; t += warps) {  // lane: the column
            float inter = 0.0f, intra = 0.0f;
            for (int i = 0; i < a.r; ++i) inter = fmaf(q[t * row + i], S[i * W + lane], inter);
            for (int j = 0; j <= t; ++j) intra = fmaf(scores[t * (C + 1) + j], v[j * W + lane], intra);
            if (column < a.d)
                O[token(start + t) * a.o_stride[2] + column] = static_cast<E>(fmaf(power(t + 1), inter, intra));
        }
        __syncthreads();
        for (int t = warp; t < n; t += warps) v[t * W + lane] *= power(n - 1 - t);
        __syncthreads();
        for (int i = warp; i < a.r; i += warps) {
            float s = S[i * W + lane] * power(n);
            for (int t = 0; t < n; ++t) s = fmaf(k[t * row + i], v[t * W + lane], s);
            S[i * W + lane] = s;
        }
    }
    for (int i = warp; i < a.r && keeps; i += warps) state[i * a.d] = S[i * W + lane];
}

template <class E>
void run_as(const CausalArgs& a, bool reversed, int64_t state_batch, cudaStream_t stream) {
    const auto set = [](int64_t(&to)[3], Strides s) { to[0] = s.batch, to[1] = s.head, to[2] = s.token; };
    Portable x{a.q,      a.k, a.v, a.o, {}, {}, {}, {}, a.state, state_batch, a.N, a.r, a.d, static_cast<int32_t>(a.H),
               reversed, {}};
    set(x.q_stride, a.q_stride), set(x.k_stride, a.k_stride), set(x.v_stride, a.v_stride), set(x.o_stride, a.o_stride);
    for (int64_t h = 0; h < a.H; ++h) x.log2_gamma[h] = static_cast<float>(std::log2(a.decay_of(h)));
    const dim3 grid(static_cast<unsigned>(a.B * a.H),
                    static_cast<unsigned>((a.d + portable_columns - 1) / portable_columns));
    launch(la_portable<E>, "launching la_portable", grid, portable_threads, sizeof(float) * portable_floats(a.r), 1,
           false, stream, x);
}

}  // namespace

void run_portable(const CausalArgs& a, bool reversed, std::int64_t state_batch, cudaStream_t stream) {
    visit(a.type, [&](auto zero) { run_as<decltype(zero)>(a, reversed, state_batch, stream); });
}

}  // namespace causeway::gpu::la
