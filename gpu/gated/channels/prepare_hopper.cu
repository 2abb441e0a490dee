// What needs no state, a thread block for each chunk of each head: scores, the inverse of the delta rule, and k and q
// times the exponentials of their gates. README.md has the letters.
#include <type_traits>

#include "gpu/gated/channels/gates.cuh"
#include "gpu/gated/channels/operands.cuh"
#include "gpu/gated/channels/own_part.cuh"
#include "gpu/gated/fma.cuh"
#include "gpu/kit/launch.hpp"
#include "gpu/kit/warp.cuh"

namespace causeway::gpu::channels {

namespace {

using gated::head_of;

constexpr int prepare_threads = 256;
// As large as a key times the inverse of its gates may become: BFloat16 ends at 2^128.
constexpr float largest_key = 0x1p120f;

template <int DK>
struct PrepareShared {
    static constexpr uint32_t pitch = pitch_of(DK);
    // k times e^{-L}; then e^{T - L} for sub-blocks 0 ... 2; that times e^{T of the next one} for 0 and 1; times two
    // for 0. The fourth part serves U0: V lies here once the scores are there.
    unsigned char inverse[C * pitch], near[48 * pitch], far[32 * pitch], farthest[16 * pitch];
    unsigned char K[C * pitch], Q[C * pitch];  // times e^L; K later times e^G
    float M[C][C + 4];                         // β M, then the inverse of I + β M
    float X[16][52];
    unsigned char P[C * pitch_of(C)];  // that inverse times β of its columns
    float total[blocks][DK];           // T: sums of the gates of a sub-block, base 2
    float beta[C];
    int by_pairs[blocks];  // a sub-block whose gates or keys are too large for `inverse`
};

// paired: rows of k, q and g are pairs of elements, aligned. made: gates are made of a projection, paired.
template <int DK, bool paired, bool made>
struct Prepare {
    static constexpr int pairs = DK / 2;  // of channels: a thread has one, of the 16 tokens of a sub-block
    using Shared = PrepareShared<DK>;
    Shared& s;
    const Part& p;
    const gated::Call& call;
    const int64_t bh, chunk, b, h, start, tile;
    const int n;
    const bool delta;
    const KeyTiles keys;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int channel = threadIdx.x % pairs * 2, I = threadIdx.x / pairs;  // of this thread
    const bool has_channels = I < blocks;

    // tile: which chunk of which head.
    __device__ __forceinline__ Prepare(const Part& p, Shared& s, uint32_t tile)
        : s(s),
          p(p),
          call(p.call),
          bh(tile / p.chunks),
          chunk(tile % p.chunks),
          b(bh / call.heads),
          h(bh % call.heads),
          start(p.first + chunk * C),
          tile(tile),
          n(static_cast<int>(min(p.first + p.tokens - start, int64_t{C}))),
          delta(call.beta != nullptr),
          keys(DK, delta) {}

    __device__ __forceinline__ const char* row(const gated::Operand& x, int64_t head, int t) const {
        return head_of(x, b, head) + (start + t) * x.token;
    }
    __device__ __forceinline__ static void put(unsigned char* to, int t, int channel, float x, float y) {
        *reinterpret_cast<uint32_t*>(to + t * Shared::pitch + channel * 2) = pack(E{}, x, y);
    }

    __device__ __forceinline__ static void put_tile(unsigned char* tile, int t, int channel, float x, float y) {
        *reinterpret_cast<uint32_t*>(tile + tile_at<DK>(t, channel)) = pack(E{}, x, y);
    }

    __device__ __forceinline__ unsigned char* key_tiles() const { return p.keys + tile * keys.bytes; }
    __device__ __forceinline__ unsigned char* query_tiles(int query) const {
        return p.queries + (tile * call.group + query) * QueryTiles(DK).bytes;
    }
    __device__ __forceinline__ unsigned char* value_tiles() const {
        return p.values + tile * (p.DV / sweep_columns) * value_bytes;
    }

    // The gates of this thread's tokens at two channels, made of a projection.
    __device__ __forceinline__ void make_gates(float2 (&g)[16], int first, int column) const {
        const Projection& projection = call.projection;
        const int64_t at = (bh * call.N + start) * call.gates + column;
        if (projection.type == Type::Float32) {
            const float* from = static_cast<const float*>(projection.a) + at;
#pragma unroll
            for (int t = 0; t < 16; ++t)
                g[t] = *reinterpret_cast<const float2*>(from + int64_t{min(first + t, n - 1)} * call.gates);
        } else {
            const E* from = static_cast<const E*>(projection.a) + at;
            uint32_t x[16];
#pragma unroll
            for (int t = 0; t < 16; ++t)
                x[t] = *reinterpret_cast<const uint32_t*>(from + int64_t{min(first + t, n - 1)} * call.gates);
#pragma unroll
            for (int t = 0; t < 16; ++t) g[t] = unpack(E{}, x[t]);
        }
        const MadeGates gate(projection, bh, call.gates);
        const float2 bias = gate.bias ? float2{gate.bias[column], gate.bias[column + 1]} : float2{0.0f, 0.0f};
#pragma unroll
        for (int t = 0; t < 16; ++t) g[t] = {gate(g[t].x + bias.x), gate(g[t].y + bias.y)};
    }
    // The gates of this thread's tokens at its two channels, base 2; 0 past the end. Nothing that is loaded is waited
    // for before the last load: branches stand outside.
    __device__ __forceinline__ void load_gates(float2 (&g)[16]) const {
        const float* from = call.g + (bh * call.N + start) * call.gates;
        const int first = I * 16, column = paired ? min(channel, call.dk - 2) : min(channel, call.dk - 1),
                  next = min(channel + 1, call.dk - 1);
        if constexpr (made) {
            make_gates(g, first, column);
        } else if (call.gates <= 1) {  // one for all channels
#pragma unroll
            for (int t = 0; t < 16; ++t) {
                const float gate = call.gates == 1 ? from[min(first + t, n - 1)] : 0.0f;
                g[t] = {gate, gate};
            }
        } else {
#pragma unroll
            for (int t = 0; t < 16; ++t) {
                const float* at = from + static_cast<int64_t>(min(first + t, n - 1)) * call.gates;
                if constexpr (paired) g[t] = *reinterpret_cast<const float2*>(at + column);
                else g[t] = {at[column], at[next]};
            }
        }
#pragma unroll
        for (int t = 0; t < 16; ++t) {
            const bool there = first + t < n;
            g[t] = {there && channel < call.dk ? gate_base_2(g[t].x) : 0.0f,
                    there && channel + 1 < call.dk ? gate_base_2(g[t].y) : 0.0f};
        }
    }
    // The elements of k or q there.
    __device__ __forceinline__ void load_elements(uint32_t (&to)[16], const gated::Operand& x, int64_t head) const {
        const char* from = head_of(x, b, head) + start * x.token;
        const int first = I * 16, column = paired ? min(channel, call.dk - 2) : min(channel, call.dk - 1),
                  next = min(channel + 1, call.dk - 1);
#pragma unroll
        for (int t = 0; t < 16; ++t) {
            const char* at = from + min(first + t, n - 1) * x.token;
            if constexpr (paired) to[t] = *reinterpret_cast<const uint32_t*>(at + column * 2);
            else {
                const auto* elements = reinterpret_cast<const uint16_t*>(at);
                to[t] = elements[column] | static_cast<uint32_t>(elements[next]) << 16;
            }
        }
        const uint32_t inside = channel + 1 < call.dk ? 0xFFFFFFFFu : channel < call.dk ? 0xFFFFu : 0u;
#pragma unroll
        for (int t = 0; t < 16; ++t) to[t] = first + t < n ? to[t] & inside : 0u;
    }

    // The scores of a sub-block's tokens i >= j, gate by gate: for gates of any size, by a whole warp. Lane 0 writes
    // put(i, j, score times factor[i] (null: scale)), j < i + diagonal.
    template <class Put>
    static __device__ __noinline__ void score_pairs(const gated::Call& call, const char* x, int64_t x_token,
                                                    const char* k, int64_t bh, int64_t token, int n, Put put,
                                                    const float* factor, int diagonal) {
        const int lane = threadIdx.x % 32;
        const auto element = [&](const char* rows, int64_t token, int t, int c) {
            return t < n && c < call.dk ? static_cast<float>(reinterpret_cast<const E*>(rows + t * token)[c]) : 0.0f;
        };
        for (int i = lane; i < 256; i += 32) put(i / 16, i % 16, 0.0f);
        __syncwarp();
        for (int j = 0; j < 16; ++j) {
            float keys[DK / 32];
#pragma unroll
            for (int m = 0; m < DK / 32; ++m) keys[m] = element(k, call.k.token, j, lane + 32 * m);
            for (int i = j; i < 16; ++i) {
                float sum = 0;
#pragma unroll
                for (int m = 0; m < DK / 32; ++m) {
                    const int c = lane + 32 * m;
                    if (i > j && i < n && c < call.dk && call.gates > 0)
                        keys[m] *= expf(log_gate<made>(call, bh, token + i, c));
                    sum = fmaf(element(x, x_token, i, c), keys[m], sum);
                }
                sum = sum_of_warp(sum);
                if (lane == 0 && j < i + diagonal) put(i, j, (factor ? factor[i] : call.scale) * sum);
            }
        }
    }
    template <class Put>
    __device__ __forceinline__ void score_pairs_of(const gated::Operand& x, int64_t head, int block, Put put,
                                                   const float* factor, int diagonal) const {
        score_pairs(call, row(x, head, block * 16), x.token, row(call.k, h, block * 16), bh, start + block * 16,
                    n - block * 16, put, factor, diagonal);
    }

    // Block (I, J) of X Kᵀ ⊙ Λ, X in shared memory times e^L.
    __device__ __forceinline__ void score_block(float (&d)[2][4], const unsigned char* X, int I, int J) const {
        const unsigned char* keys = I == J       ? s.inverse + J * 16 * Shared::pitch
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

    // The i-th block of A of a head of queries, to memory, zeros above its diagonal.
    __device__ __forceinline__ void write_scores(int i, int query) const {
        int I, J;
        block_of(i, I, J);
        unsigned char* A = query_tiles(query) + QueryTiles(DK).A_at;
        const auto at = [=](int r, int c) { return A + tile_at<C>(I * 16 + r, J * 16 + c); };
        if (I == J && s.by_pairs[I]) {
            score_pairs_of(
                call.q, h * call.group + query, I,
                [=](int r, int c, float score) { *reinterpret_cast<E*>(at(r, c)) = E(score); }, nullptr, 1);
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
                *reinterpret_cast<uint32_t*>(at(r, c)) =
                    pack(E{}, first ? d[half][2 * i2] : 0.0f, second ? d[half][2 * i2 + 1] : 0.0f);
            }
        }
    }
    // The i-th block of β M, to shared memory, zeros on and above the diagonal.
    __device__ __forceinline__ void write_triangle(int i) const {
        int I, J;
        block_of(i, I, J);
        if (I == J && s.by_pairs[I]) {
            float* M = &s.M[I * 16][J * 16];
            score_pairs_of(
                call.k, h, I, [=](int r, int c, float score) { M[r * (C + 4) + c] = score; }, s.beta + I * 16, 0);
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

    // Keys and gates: into shared memory what the scores take, Kw and `last` to memory. sum: L of this thread's tokens
    // and channels; before: the product of the gates of the sub-blocks before.
    __device__ __forceinline__ void write_keys(const uint32_t (&k)[16], const float2 (&sum)[16]) const {
        bool fits = true;
#pragma unroll
        for (int t = 0; t < 16; ++t) {
            const float2 x = unpack(E{}, k[t]);
            const float2 up = {x.x * ptx::ex2_approx(-sum[t].x), x.y * ptx::ex2_approx(-sum[t].y)};
            fits = fits && fabsf(up.x) <= largest_key && fabsf(up.y) <= largest_key;
            put(s.inverse, I * 16 + t, channel, up.x, up.y);
            if (delta) put(s.K, I * 16 + t, channel, x.x * ptx::ex2_approx(sum[t].x), x.y * ptx::ex2_approx(sum[t].y));
        }
        if (!fits) s.by_pairs[I] = 1;
        s.total[I][channel] = sum[15].x, s.total[I][channel + 1] = sum[15].y;
    }
    // The product of the gates of sub-blocks from ... to - 1, at this thread's channels.
    __device__ __forceinline__ float2 product(int from, int to) const {
        float2 x{0, 0};
#pragma unroll
        for (int i = 0; i < blocks; ++i) {
            if (i < from || i >= to) continue;
            x.x += s.total[i][channel], x.y += s.total[i][channel + 1];
        }
        return {ptx::ex2_approx(x.x), ptx::ex2_approx(x.y)};
    }
    __device__ __forceinline__ void write_far_keys(const uint32_t (&k)[16], const float2 (&sum)[16]) const {
        const float2 next = product(I + 1, I + 2), two = product(I + 1, I + 3), rest = product(I + 1, blocks);
        unsigned char* Kw = key_tiles();
#pragma unroll
        for (int t = 0; t < 16; ++t) {
            const float2 x = unpack(E{}, k[t]);
            const float2 y = {x.x * ptx::ex2_approx(sum[15].x - sum[t].x), x.y * ptx::ex2_approx(sum[15].y - sum[t].y)};
            const int token = I * 16 + t;
            if (I < 3) put(s.near, token, channel, y.x, y.y);
            if (I < 2) put(s.far, token, channel, y.x * next.x, y.y * next.y);
            if (I < 1) put(s.farthest, token, channel, y.x * two.x, y.y * two.y);
            put_tile(Kw, token, channel, y.x * rest.x, y.y * rest.y);
        }
        if (I == blocks - 1) *reinterpret_cast<float2*>(key_tiles() + keys.last_at + channel * 4) = product(0, blocks);
    }

    // One head of queries: scale · Q times e^L into shared memory, Qe to memory.
    __device__ __forceinline__ void write_queries(const uint32_t (&q)[16], const float2 (&sum)[16], float2 before,
                                                  int query) const {
        unsigned char* Qe = query_tiles(query);
#pragma unroll
        for (int t = 0; t < 16; ++t) {
            const float2 x = unpack(E{}, q[t]);
            const float2 y = {call.scale * x.x * ptx::ex2_approx(sum[t].x),
                              call.scale * x.y * ptx::ex2_approx(sum[t].y)};
            put(s.Q, I * 16 + t, channel, y.x, y.y);
            put_tile(Qe, I * 16 + t, channel, y.x * before.x, y.y * before.y);
        }
    }

    // K times e^L becomes K times e^G.
    __device__ __forceinline__ void decay_keys(float2 before) const {
#pragma unroll
        for (int t = 0; t < 16; ++t) {
            auto* at = reinterpret_cast<uint32_t*>(s.K + (I * 16 + t) * Shared::pitch + channel * 2);
            const float2 x = unpack(E{}, *at);
            *at = pack(E{}, x.x * before.x, x.y * before.y);
        }
    }

    // to += Σ_m a[m] X[m · pitch ...], m < n: four columns of a row of a product of matrices in Float32.
    __device__ __forceinline__ static void add_row(float4& to, const float* a, const float* X, int pitch, int n) {
        for (int m = 0; m < n; m += 4) {
            const float4 f = *reinterpret_cast<const float4*>(a + m);
            const float factors[4] = {f.x, f.y, f.z, f.w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float4 x = *reinterpret_cast<const float4*>(X + (m + i) * pitch);
                to = {fmaf(factors[i], x.x, to.x), fmaf(factors[i], x.y, to.y), fmaf(factors[i], x.z, to.z),
                      fmaf(factors[i], x.w, to.w)};
            }
        }
    }
    // s.M, from β M to the inverse of I + β M: the blocks on the diagonal by substitution, a column to a lane; then row
    // of blocks by row of blocks, T_IJ = -T_II Σ_{J<=m<I} (β M)_Im T_mJ, four columns of a row to a thread.
    __device__ __forceinline__ void invert() const {
        if (warp < blocks) {
            const int first = warp * 16, column = lane % 16;
            float x[16];
#pragma unroll
            for (int i = 0; i < 16; ++i) {
                float sum = i == column ? 1.0f : 0.0f;
#pragma unroll
                for (int m = 0; m < i; m += 4) {
                    const float4 f = *reinterpret_cast<const float4*>(&s.M[first + i][first + m]);
                    const float row[4] = {f.x, f.y, f.z, f.w};
#pragma unroll
                    for (int k = 0; k < 4; ++k)
                        if (m + k < i) sum = fmaf(-row[k], x[m + k], sum);
                }
                x[i] = i < column ? 0.0f : sum;
            }
            __syncwarp();
            if (lane < 16) {
#pragma unroll
                for (int i = 0; i < 16; ++i) s.M[first + i][first + column] = x[i];
            }
        }
        __syncthreads();
        const int r = threadIdx.x % 16, c = threadIdx.x / 16 * 4;
#pragma unroll 1
        for (int I = 1; I < blocks; ++I) {
            const int width = 16 * I, first = c / 16 * 16;
            float4 sum{0, 0, 0, 0}, out{0, 0, 0, 0};
            if (c < width) {
                add_row(sum, &s.M[width + r][first], &s.M[first][c], C + 4, width - first);
                *reinterpret_cast<float4*>(&s.X[r][c]) = sum;
            }
            __syncthreads();
            if (c < width) {
                add_row(out, &s.M[width + r][width], &s.X[0][c], 52, 16);
                *reinterpret_cast<float4*>(&s.M[width + r][c]) = {-out.x, -out.y, -out.z, -out.w};
            }
            __syncthreads();
        }
    }

    // 16 rows of P times a matrix of `columns` columns in shared memory. put(t, c, pair) takes the products.
    template <class Put>
    __device__ __forceinline__ void multiply_inverse(const unsigned char* X, uint32_t pitch, int columns, int I,
                                                     Put&& put) const {
        const uint32_t at = ptx::shared_address(X), P = ptx::shared_address(s.P);
        uint32_t a[blocks][4];
#pragma unroll
        for (int k = 0; k < blocks; ++k) load_a(a[k], P, pitch_of(C), I * 16, k * 16, lane);
        for (int c = 0; c < columns; c += 16) {
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
                for (int i = 0; i < 2; ++i)
                    put(I * 16 + lane / 4 + 8 * i, c + 8 * half + lane % 4 * 2,
                        pack(E{}, d[half][2 * i], d[half][2 * i + 1]));
            }
        }
    }
    // Column c of row t of U0 or V in its tile.
    __device__ __forceinline__ uint32_t* value_at(int t, int c) const {
        return reinterpret_cast<uint32_t*>(value_tiles() + c / sweep_columns * value_bytes +
                                           tile_at<sweep_columns>(t, c % sweep_columns));
    }

    __device__ __forceinline__ void run() const {
        if (threadIdx.x < blocks) s.by_pairs[threadIdx.x] = 0;
        if (threadIdx.x < C) {
            const float beta = delta && threadIdx.x < n ? call.beta[bh * call.N + start + threadIdx.x] : 0.0f;
            s.beta[threadIdx.x] = p.inverse && threadIdx.x < n && beta == 0.0f ? least_beta : beta;
        }
        uint32_t k[16], q[16] = {};
        float2 sum[16], before;
        if (has_channels) {
            load_gates(sum);
            load_elements(k, call.k, h);
            if (call.group > 0) load_elements(q, call.q, h * call.group);
#pragma unroll
            for (int t = 1; t < 16; ++t) sum[t] = {sum[t - 1].x + sum[t].x, sum[t - 1].y + sum[t].y};
        }
        __syncthreads();
        if (has_channels) write_keys(k, sum);
        __syncthreads();
        if (has_channels) {
            before = product(0, I);
            write_far_keys(k, sum);
        }
        for (int query = 0; query < max(call.group, 1); ++query) {
            const bool there = query < call.group, first = query == 0 && delta;
            if (has_channels && there) {
                if (query > 0) load_elements(q, call.q, h * call.group + query);
                write_queries(q, sum, before, query);
            }
            __syncthreads();
            for (int i = warp + (there ? 0 : 10); i < (first ? 20 : 10); i += prepare_threads / 32) {
                if (i < 10) write_scores(i, query);
                else write_triangle(i - 10);
            }
            __syncthreads();
        }
        if (!delta) {
            if (!p.values) return;
            for (int i = threadIdx.x; i < C * p.DV / 2; i += prepare_threads) {
                const int t = i / (p.DV / 2), c = i % (p.DV / 2) * 2;
                *value_at(t, c) = t < n ? load_pair(row(call.v, h, t), c, call.dv) : 0u;
            }
            return;
        }
        constexpr uint32_t value_pitch = pitch_of(128);
        static_assert(sizeof(s.inverse) + sizeof(s.near) + sizeof(s.far) + sizeof(s.farthest) >= C * value_pitch);
        copy_rows<C, 128, prepare_threads>(s.inverse, value_pitch, row(call.v, h, 0), call.v.token, n, call.dv,
                                           call.v.whole);
        if (has_channels) decay_keys(before);
        invert();
        for (int i = threadIdx.x; i < C * C / 2; i += prepare_threads) {
            const int r = i / (C / 2), c = i % (C / 2) * 2;
            const bool there = c / 16 <= r / 16;
            *reinterpret_cast<uint32_t*>(s.P + r * pitch_of(C) + c * 2) =
                there ? pack(E{}, s.M[r][c] * s.beta[c], s.M[r][c + 1] * s.beta[c + 1]) : 0u;
            if (p.inverse)
                *reinterpret_cast<uint32_t*>(p.inverse + tile * inverse_bytes + tile_at<C>(r, c)) =
                    there ? pack(E{}, s.M[r][c], s.M[r][c + 1]) : 0u;
        }
        cp_async_wait_all();
        __syncthreads();
        unsigned char* W = key_tiles() + keys.W_at;
        if (warp < blocks)
            multiply_inverse(s.K, Shared::pitch, DK, warp, [&](int t, int c, uint32_t x) {
                *reinterpret_cast<uint32_t*>(W + tile_at<DK>(t, c)) = x;
            });
        else
            multiply_inverse(s.inverse, value_pitch, p.DV, warp - blocks,
                             [&](int t, int c, uint32_t x) { *value_at(t, c) = x; });
    }
};

// Of packed sequences the grid goes through the chunks of the round, and for each of them through the heads.
template <int DK, bool paired, bool made, bool packed>
__global__ __launch_bounds__(prepare_threads,
                             2) void gated_channels_prepare(const __grid_constant__ Told<packed> told) {
    extern __shared__ __align__(16) unsigned char shared[];
    uint32_t part = 0, tile = blockIdx.x;
    if constexpr (packed) part = told.lists.part_of_chunk[blockIdx.x / static_cast<uint32_t>(told.part.call.all_heads)];
    const Part& p = own_part(told, part);
    if constexpr (packed) {
        const uint32_t heads = static_cast<uint32_t>(p.call.all_heads), chunk = blockIdx.x / heads;
        tile = blockIdx.x % heads * p.chunks + chunk - told.lists.parts[part].first_chunk;
    }
    Prepare<DK, paired, made>(p, *reinterpret_cast<PrepareShared<DK>*>(shared), tile).run();
}

template <int DK, bool paired, bool made, class T>
void prepare(const T& told, cudaStream_t stream) {
    constexpr bool packed = std::is_same_v<T, RoundPart>;
    const Part& p = shared_part(told);
    launch(gated_channels_prepare<DK, paired, made, packed>, "launching gated_channels_prepare",
           dim3(static_cast<unsigned>(p.call.all_heads * p.chunks)), prepare_threads, sizeof(PrepareShared<DK>), 1,
           false, stream, told);
}
template <int DK, class T>
void prepare(const T& told, cudaStream_t stream) {
    const gated::Call& call = shared_part(told).call;
    if (call.projection.a) prepare<DK, true, true>(told, stream);
    else if (has_pairs(call)) prepare<DK, true, false>(told, stream);
    else prepare<DK, false, false>(told, stream);
}
template <class T>
void prepare(const T& told, cudaStream_t stream) {
    if (shared_part(told).DK == 64) prepare<64>(told, stream);
    else prepare<128>(told, stream);
}

}  // namespace

void launch_prepare(const Part& p, cudaStream_t stream) { prepare(p, stream); }
void launch_prepare(const RoundPart& p, cudaStream_t stream) { prepare(p, stream); }

}  // namespace causeway::gpu::channels
