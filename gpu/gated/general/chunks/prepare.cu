// What needs no state: the tiles of every chunk.
#include "gpu/gated/fma.cuh"
#include "gpu/gated/general/chunks/part.hpp"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::general {

namespace {

using namespace gated;

constexpr int pitch = C + 4;  // of a row of scores in shared memory

template <int DK>
struct PrepareShared {
    float K[C * DK], U[C * DK], X[C * DK], a[C * DK];  // X: w, then the queries, one head after the other
    float with_k[C * pitch], with_u[C * pitch];        // scores of X
    float M[C * pitch];                                // M̂
};

// The thread's elements of a tile of rows, on their way from memory: all that a chunk has is asked for before any of it
// is waited for.
template <int DK>
struct Arriving {
    static constexpr int threads = 2 * DK;
    RawQuad x[C / 8];

    static __device__ __forceinline__ int row(int i) { return (threadIdx.x + i * threads) / (DK / 4); }
    static __device__ __forceinline__ int channel(int i) { return (threadIdx.x + i * threads) % (DK / 4) * 4; }
    // n rows, zeros behind.
    __device__ __forceinline__ void load(const Input& in, const char* rows, int n, int dk) {
#pragma unroll
        for (int i = 0; i < C / 8; ++i)
            x[i] = row(i) < n ? raw_quad_within(rows + row(i) * in.rows.token, channel(i), dk, in.rows.quads, in.type)
                              : RawQuad{0, 0, 0, 0};
    }
    // To shared memory; from row n on `behind`.
    __device__ __forceinline__ void store(float* to, Type type, int n = C, float behind = 0.0f) const {
#pragma unroll
        for (int i = 0; i < C / 8; ++i) {
            const float4 f = value(x[i], type);
            *reinterpret_cast<float4*>(to + row(i) * DK + channel(i)) =
                row(i) < n ? f : float4{behind, behind, behind, behind};
        }
    }
};
template <int DK, Gates gates>
__device__ __forceinline__ float factor(const float* a, int t, int channel) {
    return gates == Gates::channel ? a[t * DK + channel] : gates == Gates::head ? a[t] : 1.0f;
}

// x ⊙ the factors of token t, over the lane's channels.
template <int DK, Gates gates>
__device__ __forceinline__ void decay(float (&x)[DK / 16], const float* a, int t, int rg) {
#pragma unroll
    for (int m = 0; m < DK / 64; ++m) {
        const float one = gates == Gates::head ? a[t] : 1.0f;
        const float4 f = gates == Gates::channel ? *reinterpret_cast<const float4*>(a + t * DK + rg * 4 + 64 * m)
                                                 : float4{one, one, one, one};
        x[4 * m] *= f.x, x[4 * m + 1] *= f.y, x[4 * m + 2] *= f.z, x[4 * m + 3] *= f.w;
    }
}
template <int DK>
__device__ __forceinline__ void load_channels(float (&x)[DK / 16], const float* row, int rg) {
#pragma unroll
    for (int m = 0; m < DK / 64; ++m) {
        const float4 f = *reinterpret_cast<const float4*>(row + rg * 4 + 64 * m);
        x[4 * m] = f.x, x[4 * m + 1] = f.y, x[4 * m + 2] = f.z, x[4 * m + 3] = f.w;
    }
}
template <int DK>
__device__ __forceinline__ float product(const float (&x)[DK / 16], const float (&y)[DK / 16]) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < DK / 16; ++i) sum = fmaf(x[i], y[i], sum);
    return sum;
}

// with_k_tj = Σ x_t D_tj k_j for the pairs j <= t and the same with u; late = 1: those of a reader before its token,
// x_t D_{t-1,j} k_j for j < t. 0 elsewhere. 16 lanes to a column j, which go down its rows with the decayed keys: a row
// meets tokens up to its own alone.
template <int DK, Gates gates>
__device__ __forceinline__ void score(PrepareShared<DK>& s, int late, bool erases) {
    constexpr int R = DK / 16, warps = 2 * DK / 32;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rg = lane % 16;
    for (int pair = warp; pair < C / 2; pair += warps) {
        const int j = 2 * pair + lane / 16;
        float k[R], u[R], sum_k[C], sum_u[C];
        load_channels<DK>(k, s.K + j * DK, rg);
        if (erases) load_channels<DK>(u, s.U + j * DK, rg);
#pragma unroll
        for (int t = 0; t < C; ++t) {
            sum_k[t] = sum_u[t] = 0.0f;
            if (t < 2 * pair) continue;
            if (gates != Gates::none && t - late > j) {
                decay<DK, gates>(k, s.a, t - late, rg);
                if (erases) decay<DK, gates>(u, s.a, t - late, rg);
            }
            float x[R];
            load_channels<DK>(x, s.X + t * DK, rg);
            sum_k[t] = product<DK>(x, k);
            if (erases) sum_u[t] = product<DK>(x, u);
        }
        const float of_k = fold(sum_k, rg), of_u = fold(sum_u, rg);
        s.with_k[rg * pitch + j] = rg >= j + late ? of_k : 0.0f;
        s.with_u[rg * pitch + j] = erases && rg >= j + late ? of_u : 0.0f;
    }
}

// x ← (I + L)⁻¹ x of a column, L below its diagonal.
__device__ __forceinline__ void solve(float (&x)[C], const float* L) {
#pragma unroll
    for (int t = 1; t < C; ++t) {
#pragma unroll
        for (int j = 0; j < t; ++j) x[t] = fmaf(-L[t * pitch + j], x[j], x[t]);
    }
}

// A column of a tile.
template <int DK, bool narrow>
__device__ __forceinline__ void store_column(unsigned char* to, const float (&x)[C], int channel) {
#pragma unroll
    for (int t = 0; t < C; ++t) {
        if constexpr (narrow)
            *reinterpret_cast<__nv_bfloat16*>(to + narrow_at<DK>(t, channel)) = static_cast<__nv_bfloat16>(x[t]);
        else reinterpret_cast<float*>(to)[t * DK + channel] = x[t];
    }
}

// Ŵ = (I + M')⁻¹ (w_t D_{t-1,0}), M' the scores of w with u; in registers too.
template <int DK, Gates gates, bool narrow>
__device__ __forceinline__ void make_w(float (&w)[C], const PrepareShared<DK>& s, unsigned char* to, int channel) {
    float decayed = 1.0f;
#pragma unroll
    for (int t = 0; t < C; ++t) {
        w[t] = decayed * s.X[t * DK + channel];
        decayed *= factor<DK, gates>(s.a, t, channel);
    }
    solve(w, s.with_u);
    store_column<DK, narrow>(to, w, channel);
}

// M̂ = (I + M')⁻¹ M, a column to a thread.
template <int DK>
__device__ __forceinline__ void make_m(PrepareShared<DK>& s, int column) {
    float m[C];
#pragma unroll
    for (int t = 0; t < C; ++t) m[t] = s.with_k[t * pitch + column];
    solve(m, s.with_u);
#pragma unroll
    for (int t = 0; t < C; ++t) s.M[t * pitch + column] = t > column ? m[t] : 0.0f;
}

// `last`, Ũ and K̂ = K̃ - M̂ᵀ Ũ: what tokens bring, times the factors after them.
template <int DK, Gates gates, bool narrow>
__device__ __forceinline__ void make_keys(const PrepareShared<DK>& s, unsigned char* tiles, const Tiles& at,
                                          bool erases, int channel) {
    float u[C], k[C], after = 1.0f;
#pragma unroll
    for (int j = C - 1; j >= 0; --j) {
        k[j] = after * s.K[j * DK + channel];
        u[j] = erases ? after * s.U[j * DK + channel] : 0.0f;
        after *= factor<DK, gates>(s.a, j, channel);
    }
    reinterpret_cast<float*>(tiles + at.last)[channel] = after;
    if (erases) {
        store_column<DK, narrow>(tiles + at.u, u, channel);
#pragma unroll
        for (int t = 1; t < C; ++t) {
#pragma unroll
            for (int j = 0; j < t; ++j) k[j] = fmaf(-s.M[t * pitch + j], u[t], k[j]);
        }
    }
    store_column<DK, narrow>(tiles + at.k, k, channel);
}

// Q̂_t = q_t D_t0 - Σ_{j<=t} A'_tj ŵ_j, A' the scores of q with u.
template <int DK, Gates gates, bool narrow>
__device__ __forceinline__ void make_q(const PrepareShared<DK>& s, const float (&w)[C], unsigned char* to, bool erases,
                                       int channel) {
    float q[C], decayed = 1.0f;
#pragma unroll
    for (int t = 0; t < C; ++t) {
        decayed *= factor<DK, gates>(s.a, t, channel);
        q[t] = decayed * s.X[t * DK + channel];
#pragma unroll
        for (int j = 0; j <= t; ++j)
            if (erases) q[t] = fmaf(-s.with_u[t * pitch + j], w[j], q[t]);
    }
    store_column<DK, narrow>(to, q, channel);
}

// Â = A - A' M̂ up to the diagonal, by `threads` threads.
template <int DK, int threads, bool narrow>
__device__ __forceinline__ void make_scores(const PrepareShared<DK>& s, unsigned char* to, bool erases, int thread) {
    for (int i = thread; i < C * C; i += threads) {
        const int t = i / C, j = i % C;
        float x = s.with_k[t * pitch + j];
        for (int between = j + 1; erases && between <= t; ++between)
            x = fmaf(-s.with_u[t * pitch + between], s.M[between * pitch + j], x);
        const float seen = j <= t ? x : 0.0f;
        if constexpr (narrow) reinterpret_cast<__nv_bfloat16*>(to)[i] = static_cast<__nv_bfloat16>(seen);
        else reinterpret_cast<float*>(to)[i] = seen;
    }
}

// One block: one chunk of one head. A half of its threads has a channel each of what reads the state, the other one of
// what is written.
template <int DK, Gates gates, bool narrow>
__global__ __launch_bounds__(2 * DK, DK == 256   ? 1
                                     : DK == 128 ? 3
                                                 : 4) void general_prepare(const __grid_constant__ Part p) {
    extern __shared__ __align__(16) unsigned char shared[];
    auto& s = *reinterpret_cast<PrepareShared<DK>*>(shared);
    const Call& call = p.call;
    const int64_t chunk = blockIdx.x / call.all_heads, bh = blockIdx.x % call.all_heads, b = bh / call.heads,
                  h = bh % call.heads;
    const SequencePart part = part_at(p.tokens, p.tokens.lists.parts ? p.tokens.lists.part_of_chunk[chunk] : 0);
    const int64_t own_first = (chunk - part.first_chunk) * C, start = part.first + own_first;
    const int n = static_cast<int>(min(part.tokens - own_first, int64_t{C}));
    const bool erases = call.u.rows.data != nullptr, reads = threadIdx.x < DK;
    const int channel = static_cast<int>(threadIdx.x) % DK;
    const Tiles at(DK, narrow, erases, call.group);
    unsigned char* const tiles = p.tiles + static_cast<int64_t>(blockIdx.x) * at.bytes;
    const auto rows_of = [&](const Input& x, int64_t head) { return head_of(x, b, head) + start * x.rows.token; };
    Arriving<DK> k, u, x, a, q;
    k.load(call.k, rows_of(call.k, h), n, call.dk);
    if (erases) u.load(call.u, rows_of(call.u, h), n, call.dk), x.load(call.w, rows_of(call.w, h), n, call.dk);
    if constexpr (gates == Gates::channel) a.load(call.a, rows_of(call.a, h), n, call.dk);
    q.load(call.q, rows_of(call.q, h * call.group), n, call.dk);
    if (gates == Gates::head && threadIdx.x < C) {
        const int t = threadIdx.x;
        s.a[t] = t < n ? element(rows_of(call.a, h) + t * call.a.rows.token, 0, call.a.type) : 1.0f;
    }
    k.store(s.K, call.k.type);
    if (erases) u.store(s.U, call.u.type), x.store(s.X, call.w.type);
    if constexpr (gates == Gates::channel) a.store(s.a, call.a.type, n, 1.0f);
    __syncthreads();

    float w[C] = {};
    if (erases) {
        score<DK, gates>(s, 1, true);
        __syncthreads();
        if (reads) make_w<DK, gates, narrow>(w, s, tiles, channel);
        else if (channel < C) make_m(s, channel);
        __syncthreads();
    }
    if (!reads) make_keys<DK, gates, narrow>(s, tiles, at, erases, channel);
    for (int query = 0; query < call.group; ++query) {
        q.store(s.X, call.q.type);
        if (query + 1 < call.group) q.load(call.q, rows_of(call.q, h * call.group + query + 1), n, call.dk);
        __syncthreads();
        score<DK, gates>(s, 0, erases);
        __syncthreads();
        unsigned char* const to = tiles + at.queries + query * at.query;
        if (reads) make_q<DK, gates, narrow>(s, w, to, erases, channel);
        else make_scores<DK, DK, narrow>(s, to + at.u, erases, channel);
        __syncthreads();
    }
}

template <int DK, bool narrow>
void prepare(const Part& p, cudaStream_t stream) {
    const int64_t blocks = p.tokens.chunks * p.call.all_heads;
    const auto run = [&](auto kernel) {
        launch(kernel, "launching general_prepare", dim3(static_cast<unsigned>(blocks)), 2 * DK,
               sizeof(PrepareShared<DK>), 1, false, stream, p);
    };
    if (p.call.gates == 0) run(general_prepare<DK, Gates::none, narrow>);
    else if (p.call.gates == 1) run(general_prepare<DK, Gates::head, narrow>);
    else run(general_prepare<DK, Gates::channel, narrow>);
}

}  // namespace

void launch_prepare(const Part& p, cudaStream_t stream) {
    const int rows = padded_rows(p.call.dk);
    if (rows == 64) return p.narrow ? prepare<64, true>(p, stream) : prepare<64, false>(p, stream);
    if (rows == 128) return p.narrow ? prepare<128, true>(p, stream) : prepare<128, false>(p, stream);
    prepare<256, false>(p, stream);
}

}  // namespace causeway::gpu::general
