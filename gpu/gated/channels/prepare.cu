// What needs no state, a thread block for each chunk of each head: scores, the inverse of the delta rule, and k and q
// times the exponentials of their gates. README.md has the letters.
#include <type_traits>

#include "gpu/gated/channels/operands.cuh"
#include "gpu/gated/fma.cuh"
#include "gpu/kit/launch.hpp"
#include "gpu/kit/warp.cuh"

namespace causeway::gpu::channels {

namespace {

using gated::head_of;

constexpr int prepare_threads = 256;
// Gates are cut off at 2^-160 a token, which is 0 in Float32, so that sums of them stay numbers.
constexpr float least_gate = -160.0f;
// As large as a key times the inverse of its gates may become: BFloat16 ends at 2^128.
constexpr float largest_key = 0x1p120f;

template <int DK>
struct PrepareShared {
    static constexpr uint32_t pitch = pitch_of(DK);
    // k times e^{-L}; then e^{T - L} for sub-blocks 0 ... 2; that times e^{T of the next one} for 0 and 1; times two for 0.
    // The fourth part serves U0: V lies here once the scores are there.
    unsigned char inverse[C * pitch], near[48 * pitch], far[32 * pitch], farthest[16 * pitch];
    unsigned char K[C * pitch], Q[C * pitch];  // times e^L; K later times e^G
    float M[C][C + 4];                         // β M, then the inverse of I + β M
    float X[16][52];
    unsigned char P[C * pitch_of(C)];  // that inverse times β of its columns
    float total[blocks][DK];           // T: sums of the gates of a sub-block, base 2
    float beta[C];
    int by_pairs[blocks];  // a sub-block whose gates or keys are too large for `inverse`
};

template <int DK>
struct Prepare {
    static constexpr int pairs = DK / 2;  // of channels: a thread has one, of the 16 tokens of a sub-block
    using Shared = PrepareShared<DK>;
    Shared& s;
    const Part& p;
    const gated::Call& call;
    const int64_t bh, chunk, b, h, start, tile;
    const int n;
    const bool delta;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    __device__ __forceinline__ Prepare(const Part& p, Shared& s)
        : s(s),
          p(p),
          call(p.call),
          bh(blockIdx.x / p.chunks),
          chunk(blockIdx.x % p.chunks),
          b(bh / call.heads),
          h(bh % call.heads),
          start(p.first + chunk * C),
          tile(blockIdx.x),
          n(static_cast<int>(min(p.first + p.tokens - start, int64_t{C}))),
          delta(call.beta != nullptr) {}

    __device__ __forceinline__ const char* row(const gated::Operand& x, int64_t head, int t) const {
        return head_of(x, b, head) + (start + t) * x.token;
    }
    __device__ __forceinline__ static void put(unsigned char* to, int t, int channel, float x, float y) {
        *reinterpret_cast<uint32_t*>(to + t * Shared::pitch + channel * 2) = pack(E{}, x, y);
    }

    // The gate of a token at two channels, base 2; 0 past the end.
    __device__ __forceinline__ float2 gate(int t, int channel) const {
        if (t >= n) return {0, 0};
        const float* g = call.g + (bh * call.N + start + t) * call.gates + channel;
        constexpr float log2_e = 1.4426950408889634f;
        const auto cut = [](float x) { return x < least_gate ? least_gate : x; };  // NaN stays
        if (call.dk % 2 == 0 && reinterpret_cast<uintptr_t>(call.g) % 8 == 0) {
            if (channel >= call.dk) return {0, 0};
            const float2 x = *reinterpret_cast<const float2*>(g);
            return {cut(x.x * log2_e), cut(x.y * log2_e)};
        }
        return {channel < call.dk ? cut(g[0] * log2_e) : 0.0f, channel + 1 < call.dk ? cut(g[1] * log2_e) : 0.0f};
    }

    // The score of tokens i and j of a sub-block, gate by gate: for gates of any size, by a whole warp. 16×16 of them
    // go to put(i, j, score), j <= i.
    template <class Put>
    __device__ __noinline__ void score_pairs(const gated::Operand& x, int64_t head, int block, Put&& put) const {
        for (int j = 0; j < 16; ++j) {
            float k[DK / 32];
            const int tj = block * 16 + j;
#pragma unroll
            for (int m = 0; m < DK / 32; ++m) k[m] = element(call.k, h, tj, lane + 32 * m);
            for (int i = j; i < 16; ++i) {
                const int ti = block * 16 + i;
                float sum = 0;
#pragma unroll
                for (int m = 0; m < DK / 32; ++m) {
                    const int c = lane + 32 * m;
                    if (i > j) k[m] *= ti < n && c < call.dk ? expf(call.g[(bh * call.N + start + ti) * call.gates + c]) : 1.0f;
                    sum = fmaf(element(x, head, ti, c), k[m], sum);
                }
                put(i, j, sum_of_warp(sum));
            }
        }
    }
    __device__ __forceinline__ float element(const gated::Operand& x, int64_t head, int t, int c) const {
        return t < n && c < call.dk ? static_cast<float>(reinterpret_cast<const E*>(row(x, head, t))[c]) : 0.0f;
    }

    // Block (I, J) of X Kᵀ ⊙ Λ, X in shared memory times e^L.
    __device__ __forceinline__ void score_block(float (&d)[2][4], const unsigned char* X, int I, int J) const {
        const unsigned char* keys = I == J ? s.inverse + J * 16 * Shared::pitch
                                    : I == J + 1 ? s.near + J * 16 * Shared::pitch
                                    : I == J + 2 ? s.far + J * 16 * Shared::pitch
                                                 : s.farthest;
        const uint32_t x = ptx::shared_address(X), k = ptx::shared_address(keys);
#pragma unroll
        for (int c = 0; c < DK; c += 16) {
            uint32_t a[4], f[4];
            load_a(a, x, Shared::pitch, I * 16, c, lane);
            load_b_transposed(f, k, Shared::pitch, c, 0, lane);
            multiply(d, a, f);
        }
    }

    // Sub-block I >= J of the i-th of the ten.
    __device__ __forceinline__ static void block_of(int i, int& I, int& J) {
        I = i < 1 ? 0 : i < 3 ? 1 : i < 6 ? 2 : 3;
        J = i - I * (I + 1) / 2;
    }

    // The i-th block of A of a head of queries, to memory, zeros above its diagonal.
    __device__ __forceinline__ void write_scores(int i, int query) const {
        int I, J;
        block_of(i, I, J);
        E* to = p.A + (tile * call.group + query) * C * C + I * 16 * C + J * 16;
        if (I == J && s.by_pairs[I]) {
            for (int t = lane; t < 256; t += 32) to[t / 16 * C + t % 16] = E(0.0f);
            __syncwarp();
            score_pairs(call.q, h * call.group + query, I, [&](int r, int c, float x) {
                if (lane == 0) to[r * C + c] = E(x);
            });
            return;
        }
        float d[2][4] = {};
        score_block(d, s.Q, I, J);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int i2 = 0; i2 < 2; ++i2) {
                const int r = lane / 4 + 8 * i2, c = 8 * half + lane % 4 * 2;
                const bool first = I > J || c <= r, second = I > J || c + 1 <= r;
                *reinterpret_cast<uint32_t*>(to + r * C + c) =
                    pack(E{}, first ? d[half][2 * i2] : 0.0f, second ? d[half][2 * i2 + 1] : 0.0f);
            }
        }
    }
    // The i-th block of β M, to shared memory, zeros on and above the diagonal.
    __device__ __forceinline__ void write_triangle(int i) const {
        int I, J;
        block_of(i, I, J);
        if (I == J && s.by_pairs[I]) {
            for (int t = lane; t < 256; t += 32) s.M[I * 16 + t / 16][J * 16 + t % 16] = 0;
            __syncwarp();
            score_pairs(call.k, h, I, [&](int r, int c, float x) {
                if (lane == 0 && c < r) s.M[I * 16 + r][J * 16 + c] = s.beta[I * 16 + r] * x;
            });
            return;
        }
        float d[2][4] = {};
        score_block(d, s.K, I, J);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int r = lane / 4 + 8 * (e / 2), c = 8 * half + lane % 4 * 2 + e % 2;
                s.M[I * 16 + r][J * 16 + c] = I > J || c < r ? s.beta[I * 16 + r] * d[half][e] : 0.0f;
            }
        }
    }

    // Keys and gates: into shared memory what the scores take, Kw and `last` to memory. e: e^L of this thread's tokens
    // and channels; before: product of the gates of the sub-blocks before.
    __device__ __forceinline__ void load_keys(float2 (&e)[16], float2& before) const {
        const int channel = threadIdx.x % pairs * 2;
        if constexpr (DK == 128) {
            keys_of(e, before, channel, threadIdx.x / pairs);
        } else {
            // 32 pairs of channels: a warp has one of the four sub-blocks, and the other four warps wait.
            if (threadIdx.x / pairs < blocks) keys_of(e, before, channel, threadIdx.x / pairs);
            else __syncthreads();
        }
    }
    __device__ __forceinline__ void keys_of(float2 (&e)[16], float2& before, int channel, int I) const {
        uint32_t k[16];
        float2 sum[16];
        float2 running{0, 0};
#pragma unroll
        for (int t = 0; t < 16; ++t) {
            const int token = I * 16 + t;
            k[t] = token < n ? load_pair(row(call.k, h, token), channel, call.dk, call.k.quads) : 0u;
            const float2 g = gate(token, channel);
            running = {running.x + g.x, running.y + g.y};
            sum[t] = running;
        }
        s.total[I][channel] = running.x, s.total[I][channel + 1] = running.y;
        bool fits = true;
#pragma unroll
        for (int t = 0; t < 16; ++t) {
            const float2 x = unpack(E{}, k[t]);
            const float2 up = {x.x * ptx::ex2_approx(-sum[t].x), x.y * ptx::ex2_approx(-sum[t].y)};
            fits = fits && fabsf(up.x) <= largest_key && fabsf(up.y) <= largest_key;
            put(s.inverse, I * 16 + t, channel, up.x, up.y);
            e[t] = {ptx::ex2_approx(sum[t].x), ptx::ex2_approx(sum[t].y)};
            if (delta) put(s.K, I * 16 + t, channel, x.x * e[t].x, x.y * e[t].y);
        }
        if (!fits) s.by_pairs[I] = 1;
        __syncthreads();
        const auto product = [&](int from, int to) {  // of the gates of sub-blocks from ... to - 1
            float2 x{0, 0};
            for (int i = from; i < to; ++i) x.x += s.total[i][channel], x.y += s.total[i][channel + 1];
            return float2{ptx::ex2_approx(x.x), ptx::ex2_approx(x.y)};
        };
        before = product(0, I);
        const float2 next = product(I + 1, min(I + 2, blocks)), two = product(I + 1, min(I + 3, blocks)),
                     rest = product(I + 1, blocks);
        E* Kw = p.Kw + tile * C * DK + channel;
#pragma unroll
        for (int t = 0; t < 16; ++t) {
            const float2 x = unpack(E{}, k[t]);
            const float2 y = {x.x * ptx::ex2_approx(running.x - sum[t].x), x.y * ptx::ex2_approx(running.y - sum[t].y)};
            const int token = I * 16 + t;
            if (I < 3) put(s.near, token, channel, y.x, y.y);
            if (I < 2) put(s.far, token, channel, y.x * next.x, y.y * next.y);
            if (I < 1) put(s.farthest, token, channel, y.x * two.x, y.y * two.y);
            *reinterpret_cast<uint32_t*>(Kw + token * DK) = pack(E{}, y.x * rest.x, y.y * rest.y);
        }
        if (I == 3) {
            const float2 all = product(0, blocks);
            *reinterpret_cast<float2*>(p.last + tile * DK + channel) = all;
        }
    }

    // One head of queries: times e^L into shared memory, Qe to memory.
    __device__ __forceinline__ void load_queries(const float2 (&e)[16], float2 before, int query) const {
        const int channel = threadIdx.x % pairs * 2, I = threadIdx.x / pairs;
        if (I >= blocks) return;
        uint32_t q[16];
#pragma unroll
        for (int t = 0; t < 16; ++t) {
            const int token = I * 16 + t;
            q[t] = token < n ? load_pair(row(call.q, h * call.group + query, token), channel, call.dk, call.q.quads) : 0u;
        }
        E* Qe = p.Qe + (tile * call.group + query) * C * DK + channel;
#pragma unroll
        for (int t = 0; t < 16; ++t) {
            const float2 x = unpack(E{}, q[t]);
            const float2 y = {x.x * e[t].x, x.y * e[t].y};
            put(s.Q, I * 16 + t, channel, y.x, y.y);
            *reinterpret_cast<uint32_t*>(Qe + (I * 16 + t) * DK) = pack(E{}, y.x * before.x, y.y * before.y);
        }
    }

    // K times e^L becomes K times e^G.
    __device__ __forceinline__ void decay_keys(float2 before) const {
        const int channel = threadIdx.x % pairs * 2, I = threadIdx.x / pairs;
        if (I >= blocks) return;
#pragma unroll
        for (int t = 0; t < 16; ++t) {
            auto* at = reinterpret_cast<uint32_t*>(s.K + (I * 16 + t) * Shared::pitch + channel * 2);
            const float2 x = unpack(E{}, *at);
            *at = pack(E{}, x.x * before.x, x.y * before.y);
        }
    }

    // s.M, from β M to the inverse of I + β M: the blocks on the diagonal by substitution, a column to a lane; then row of
    // blocks by row of blocks, T_IJ = -T_II Σ_{J<=m<I} (β M)_Im T_mJ.
    __device__ __forceinline__ void invert() const {
        if (warp < blocks) {
            const int first = warp * 16, column = lane % 16;
            float x[16];
#pragma unroll
            for (int i = 0; i < 16; ++i) {
                float sum = i == column ? 1.0f : 0.0f;
#pragma unroll
                for (int m = 0; m < i; ++m) sum = fmaf(-s.M[first + i][first + m], x[m], sum);
                x[i] = i < column ? 0.0f : sum;
            }
            __syncwarp();
            if (lane < 16) {
#pragma unroll
                for (int i = 0; i < 16; ++i) s.M[first + i][first + column] = x[i];
            }
        }
        __syncthreads();
#pragma unroll
        for (int I = 1; I < blocks; ++I) {
            const int width = 16 * I, r = threadIdx.x / 16, c = threadIdx.x % 16;
            for (int J = 0; J < I; ++J) {
                float sum = 0;
                for (int m = 16 * J; m < width; ++m) sum = fmaf(s.M[I * 16 + r][m], s.M[m][16 * J + c], sum);
                s.X[r][16 * J + c] = sum;
            }
            __syncthreads();
            float out[3];
#pragma unroll
            for (int J = 0; J < I; ++J) {
                float sum = 0;
#pragma unroll
                for (int m = 0; m < 16; ++m) sum = fmaf(-s.M[I * 16 + r][width + m], s.X[m][16 * J + c], sum);
                out[J] = sum;
            }
#pragma unroll
            for (int J = 0; J < I; ++J) s.M[I * 16 + r][16 * J + c] = out[J];
            __syncthreads();
        }
    }

    // 16 rows of P times a matrix of `columns` columns in shared memory, to rows of `wide` elements in memory.
    __device__ __forceinline__ void write_product(E* to, int wide, const unsigned char* X, uint32_t pitch, int I) const {
        const uint32_t at = ptx::shared_address(X), P = ptx::shared_address(s.P);
        uint32_t a[blocks][4];
#pragma unroll
        for (int k = 0; k < blocks; ++k) load_a(a[k], P, pitch_of(C), I * 16, k * 16, lane);
        for (int c = 0; c < wide; c += 16) {
            float d[2][4] = {};
#pragma unroll
            for (int k = 0; k < blocks; ++k) {
                if (k > I) break;
                uint32_t f[4];
                load_b(f, at, pitch, k * 16, c, lane);
                multiply(d, a[k], f);
            }
#pragma unroll
            for (int half = 0; half < 2; ++half) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    E* row = to + (I * 16 + lane / 4 + 8 * i) * wide + c + 8 * half + lane % 4 * 2;
                    *reinterpret_cast<uint32_t*>(row) = pack(E{}, d[half][2 * i], d[half][2 * i + 1]);
                }
            }
        }
    }

    __device__ __forceinline__ void run() const {
        if (threadIdx.x < blocks) s.by_pairs[threadIdx.x] = 0;
        if (threadIdx.x < C)
            s.beta[threadIdx.x] = delta && threadIdx.x < n ? call.beta[bh * call.N + start + threadIdx.x] : 0.0f;
        __syncthreads();
        float2 e[16], before;
        load_keys(e, before);
        for (int query = 0; query < call.group; ++query) {
            load_queries(e, before, query);
            __syncthreads();
            const bool first = query == 0 && delta;
            for (int i = warp; i < (first ? 20 : 10); i += prepare_threads / 32) {
                if (i < 10) write_scores(i, query);
                else write_triangle(i - 10);
            }
            __syncthreads();
        }
        if (!delta) return;
        constexpr uint32_t value_pitch = pitch_of(128);
        static_assert(sizeof(s.inverse) + sizeof(s.near) + sizeof(s.far) + sizeof(s.farthest) >= C * value_pitch);
        copy_rows<C, 128, prepare_threads>(s.inverse, value_pitch, row(call.v, h, 0), call.v.token, n, call.dv,
                                           call.v.whole);
        decay_keys(before);
        invert();
        for (int i = threadIdx.x; i < C * C / 2; i += prepare_threads) {
            const int r = i / (C / 2), c = i % (C / 2) * 2;
            const bool there = c / 16 <= r / 16;
            *reinterpret_cast<uint32_t*>(s.P + r * pitch_of(C) + c * 2) =
                there ? pack(E{}, s.M[r][c] * s.beta[c], s.M[r][c + 1] * s.beta[c + 1]) : 0u;
        }
        cp_async_wait_all();
        __syncthreads();
        if (warp < blocks) write_product(p.W + tile * C * DK, DK, s.K, Shared::pitch, warp);
        else write_product(p.U0 + tile * C * p.DV, p.DV, s.inverse, value_pitch, warp - blocks);
    }
};

template <int DK>
__global__ __launch_bounds__(prepare_threads, 2) void gated_channels_prepare(const __grid_constant__ Part p) {
    extern __shared__ __align__(16) unsigned char shared[];
    Prepare<DK>(p, *reinterpret_cast<PrepareShared<DK>*>(shared)).run();
}

template <int DK>
void prepare(const Part& p, cudaStream_t stream) {
    launch(gated_channels_prepare<DK>, "launching gated_channels_prepare",
           dim3(static_cast<unsigned>(p.call.all_heads * p.chunks)), prepare_threads, sizeof(PrepareShared<DK>), 1, false,
           stream, p);
}

}  // namespace

void launch_prepare(const Part& p, cudaStream_t stream) {
    if (p.DK == 64) prepare<64>(p, stream);
    else prepare<128>(p, stream);
}

}  // namespace causeway::gpu::channels
