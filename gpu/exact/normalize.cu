#include "gpu/exact/normalize.hpp"

#include <algorithm>

#include "gpu/exact/check.hpp"
#include "gpu/exact/factor.cuh"
#include "gpu/kit/element.cuh"

namespace causeway::gpu {

namespace {

constexpr int chunk = 128, warps = 8, max_heads = 256;

struct Normalizer {
    const void *q, *k;
    void* o;
    Strides q_stride, k_stride, o_stride;
    int64_t batches, N, chunks;
    int32_t r, d, all_heads, first_head, heads;
    float* z;        // [B, heads of this launch, chunks, r]: the sum of a chunk, then z before it
    float* z_state;  // [B, all_heads, r] or null
    double log2_gamma[max_heads];
};

struct Place {
    int64_t b, h, c;  // batch, head of this launch, chunk
};

// Which chunk a warp has; false beyond the last.
__device__ __forceinline__ bool place_of(const Normalizer& a, Place& at) {
    int64_t x = blockIdx.x * int64_t{warps} + threadIdx.x / 32;
    at.c = x % a.chunks, x /= a.chunks;
    at.h = x % a.heads, at.b = x / a.heads;
    return at.b < a.batches;
}

template <class E, int V>
__device__ __forceinline__ void load_row(float (&x)[V], const E* row, int columns) {
#pragma unroll
    for (int i = 0; i < V; ++i) {
        const int at = 32 * i + static_cast<int>(threadIdx.x % 32);
        const float y = static_cast<float>(
            row[at < columns ? at : 0]);  // read always: loads without branches stay in flight together
        x[i] = at < columns ? y : 0.0f;
    }
}

// Σ_j γ^(n-1-j) k_j of every chunk: a warp, V elements to a lane.
template <class E, int V>
__global__ __launch_bounds__(32 * warps) void chunk_sums(const __grid_constant__ Normalizer a) {
    Place at;
    if (!place_of(a, at)) return;
    const E* K = static_cast<const E*>(a.k) + at.b * a.k_stride.batch + (a.first_head + at.h) * a.k_stride.head;
    const int64_t start = at.c * chunk, end = start + chunk < a.N ? start + chunk : a.N;
    Factor gamma(exp2(a.log2_gamma[at.h]), 0);
    float z[V] = {};
#pragma unroll 4
    for (int64_t t = start; t < end; ++t) {
        float k[V];
        load_row(k, K + t * a.k_stride.token, a.r);
        const float g = gamma.next();
#pragma unroll
        for (int i = 0; i < V; ++i) z[i] = fmaf(g, z[i], k[i]);
    }
    float* const to = a.z + ((at.b * a.heads + at.h) * a.chunks + at.c) * a.r;
#pragma unroll
    for (int i = 0; i < V; ++i) {
        const int e = 32 * i + static_cast<int>(threadIdx.x % 32);
        if (e < a.r) to[e] = z[i];
    }
}

// From the sums of the chunks to z before each: one block to a head, one thread to an element.
__global__ void chunk_scan(const __grid_constant__ Normalizer a) {
    const int64_t h = blockIdx.x % a.heads, b = blockIdx.x / a.heads;
    const int e = threadIdx.x;
    if (e >= a.r) return;
    float* const given = a.z_state ? a.z_state + (b * a.all_heads + a.first_head + h) * a.r + e : nullptr;
    float* const sums = a.z + (b * a.heads + h) * a.chunks * a.r + e;
    Factor factor(exp2(a.log2_gamma[h] * chunk), 0);
    float z = given ? *given : 0.0f;
#pragma unroll 8
    for (int64_t c = 0; c < a.chunks; ++c) {
        const float sum = sums[c * a.r];
        sums[c * a.r] = z;
        const int64_t n = a.N - c * chunk;
        z = fmaf(n < chunk ? static_cast<float>(exp2(a.log2_gamma[h] * static_cast<double>(n))) : factor.next(), z,
                 sum);
    }
    if (given) *given = z;
}

// o_i /= q_i·z_i, chunk by chunk as the sums.
template <class E, int V>
__global__ __launch_bounds__(32 * warps) void divide(const __grid_constant__ Normalizer a) {
    Place at;
    if (!place_of(a, at)) return;
    const int64_t h = a.first_head + at.h, start = at.c * chunk, end = start + chunk < a.N ? start + chunk : a.N;
    const E* K = static_cast<const E*>(a.k) + at.b * a.k_stride.batch + h * a.k_stride.head;
    const E* Q = static_cast<const E*>(a.q) + at.b * a.q_stride.batch + h * a.q_stride.head;
    E* O = static_cast<E*>(a.o) + at.b * a.o_stride.batch + h * a.o_stride.head;
    Factor gamma(exp2(a.log2_gamma[at.h]), 0);
    float z[V];
    load_row(z, a.z + ((at.b * a.heads + at.h) * a.chunks + at.c) * a.r, a.r);
    constexpr int T = V < 8 ? 4 : 2;  // tokens at a time
    for (int64_t t0 = start; t0 < end; t0 += T) {
        float k[T][V], q[T][V], D[T] = {};
#pragma unroll
        for (int t = 0; t < T; ++t) {
            const int64_t token = t0 + t < end ? t0 + t : end - 1;
            load_row(k[t], K + token * a.k_stride.token, a.r);
            load_row(q[t], Q + token * a.q_stride.token, a.r);
        }
#pragma unroll
        for (int t = 0; t < T; ++t) {
            const float g = gamma.next();
#pragma unroll
            for (int i = 0; i < V; ++i) {
                z[i] = fmaf(g, z[i], k[t][i]);
                D[t] = fmaf(q[t][i], z[i], D[t]);
            }
        }
#pragma unroll
        for (int lanes = 16; lanes > 0; lanes /= 2) {
#pragma unroll
            for (int t = 0; t < T; ++t) D[t] += __shfl_xor_sync(~0u, D[t], lanes);
        }
        for (int i = threadIdx.x % 32; i < a.d; i += 32) {
            float o[T];
#pragma unroll
            for (int t = 0; t < T; ++t)
                o[t] = static_cast<float>(O[(t0 + t < end ? t0 + t : end - 1) * a.o_stride.token + i]);
#pragma unroll
            for (int t = 0; t < T; ++t)
                if (t0 + t < end) O[(t0 + t) * a.o_stride.token + i] = static_cast<E>(o[t] / D[t]);
        }
    }
}

int64_t chunks_of(const CausalArgs& a) { return (a.N + chunk - 1) / chunk; }

template <class E, int V>
void run(const Normalizer& x, int64_t batch_heads, bool divides, cudaStream_t stream) {
    const auto blocks = static_cast<unsigned>((batch_heads * x.chunks + warps - 1) / warps);
    chunk_sums<E, V><<<blocks, 32 * warps, 0, stream>>>(x);
    check_launch("launching chunk_sums");
    chunk_scan<<<static_cast<unsigned>(batch_heads), 32 * ((x.r + 31) / 32), 0, stream>>>(x);
    check_launch("launching chunk_scan");
    if (!divides) return;
    divide<E, V><<<blocks, 32 * warps, 0, stream>>>(x);
    check_launch("launching divide");
}

void run(const char* function, const CausalArgs& a, float* z_state, bool divides, cudaStream_t stream) {
    check_causal(function, a);
    if (empty(a)) return;
    check_workspace(function, a, normalize_workspace(a));
    Normalizer x{a.q,        a.k,        a.o,
                 a.q_stride, a.k_stride, a.o_stride,
                 a.B,        a.N,        chunks_of(a),
                 a.r,        a.d,        static_cast<int32_t>(a.H),
                 0,          0,          static_cast<float*>(a.workspace.data),
                 z_state,    {}};
    for (int64_t first = 0; first < a.H; first += max_heads) {
        x.first_head = static_cast<int32_t>(first);
        x.heads = static_cast<int32_t>(std::min<int64_t>(max_heads, a.H - first));
        for (int h = 0; h < x.heads; ++h) x.log2_gamma[h] = std::log2(a.decay_of(first + h));
        const int64_t batch_heads = a.B * x.heads;
        if (batch_heads * x.chunks / warps >= (int64_t{1} << 31) - 1)
            fail(function, ": ", a.B, " batches of ", a.H, " heads of ", a.N, " tokens are too many");
        visit(a.type, [&](auto zero) {
            using E = decltype(zero);
            if (a.r <= 32) run<E, 1>(x, batch_heads, divides, stream);
            else if (a.r <= 64) run<E, 2>(x, batch_heads, divides, stream);
            else if (a.r <= 128) run<E, 4>(x, batch_heads, divides, stream);
            else run<E, 8>(x, batch_heads, divides, stream);
        });
    }
}

}  // namespace

std::size_t normalize_workspace(const CausalArgs& a) {
    check_causal("normalize", a);
    return static_cast<std::size_t>(a.B * std::min<int64_t>(a.H, max_heads) * chunks_of(a) * a.r) * sizeof(float);
}

void normalize(const CausalArgs& a, cudaStream_t stream, float* z_state) { run("normalize", a, z_state, true, stream); }

void key_sums(const CausalArgs& a, cudaStream_t stream, float* z_state) { run("key_sums", a, z_state, false, stream); }

}  // namespace causeway::gpu
