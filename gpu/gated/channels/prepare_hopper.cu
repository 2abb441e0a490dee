// What needs no state, a thread block for each chunk of each head: scores, the inverse of the delta rule, and k and q
// times the exponentials of their gates. README.md has the letters.
#include <type_traits>

#include "gpu/gated/channels/gates.cuh"
#include "gpu/gated/channels/inverse.cuh"
#include "gpu/gated/channels/operands.cuh"
#include "gpu/gated/channels/own_part.cuh"
#include "gpu/gated/fma.cuh"
#include "gpu/kit/launch.hpp"
#include "gpu/kit/warp.cuh"

namespace causeway::gpu::channels {

namespace {

using gated::head_of;

// Two blocks of so many are all that a multiprocessor has registers for. With half as many, and twice the tokens to a
// thread, the delta rule took 2 % longer, and calls without it 5 % less.
constexpr int prepare_threads = 512, prepare_warps = prepare_threads / 32;
constexpr int own_tokens = 8, halves = C / own_tokens;  // of a thread; as many halves of sub-blocks
// As large as a key times the inverse of its gates may become: BFloat16 ends at 2^128.
constexpr float largest_key = 0x1p120f;

template <int DK, bool delta>
struct PrepareShared;
template <int DK>
struct PrepareShared<DK, false> {
    static constexpr uint32_t pitch = pitch_of(DK);
    // k, then k times e^{-L}; e^{T - L} for sub-blocks 0 ... 2; that times e^{T of the next one} for 0 and 1; times two
    // for 0. All four parts serve V once the scores are there.
    unsigned char inverse[C * pitch], near[48 * pitch], far[32 * pitch], farthest[16 * pitch];
    unsigned char Q[C * pitch];             // q, then that times scale and e^L; W once the scores are there
    unsigned char scores[C * pitch_of(C)];  // A as its tile lies in memory; then P
    float total[halves][DK];                // sums of the gates of half a sub-block, base 2
    int by_pairs[blocks];                   // a sub-block whose gates or keys are too large for `inverse`
};
template <int DK>
struct PrepareShared<DK, true> : PrepareShared<DK, false> {
    unsigned char K[C * pitch_of(DK)];  // times e^L, later e^G
    Triangle M;                         // β M, of which the blocks on the diagonal become their inverses; then U0
    float beta[C];
};

// paired: rows of g are pairs of elements, aligned. made: gates are made of a projection, paired.
template <int DK, bool delta, bool paired, bool made>
struct Prepare {
    static constexpr int pairs = DK / 2;  // of channels: a thread has one, of the tokens of half a sub-block
    using Sums = float2[own_tokens];
    using Shared = PrepareShared<DK, delta>;
    static constexpr uint32_t pitch = Shared::pitch, value_pitch = pitch_of(128);
    static constexpr KeyTiles keys{DK, delta};
    Shared& s;
    const Part& p;
    const gated::Call& call;
    const int64_t bh, chunk, b, h, start, tile;
    const int n;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int channel = threadIdx.x % pairs * 2, half = threadIdx.x / pairs, I = half / 2;  // of this thread
    const bool has_channels = half < halves;

    // tile: which chunk of which head.
    __device__ __forceinline__ Prepare(const Part& p, Shared& s, uint32_t tile)
        : s(s),
          p(p),
          call(p.call),
          bh(tile / static_cast<uint32_t>(p.chunks)),
          chunk(tile % static_cast<uint32_t>(p.chunks)),
          b(static_cast<uint32_t>(bh) / static_cast<uint32_t>(call.heads)),
          h(static_cast<uint32_t>(bh) % static_cast<uint32_t>(call.heads)),
          start(p.first + chunk * C),
          tile(tile),
          n(static_cast<int>(min(p.first + p.tokens - start, int64_t{C}))) {}

    __device__ __forceinline__ const char* row(const gated::Operand& x, int64_t head, int t) const {
        return head_of(x, b, head) + (start + t) * x.token;
    }
    // The two elements of this thread's channels in a row of shared memory.
    __device__ __forceinline__ uint32_t& pair_of(unsigned char* matrix, int t) const {
        return *reinterpret_cast<uint32_t*>(matrix + t * pitch + channel * 2);
    }
    // f(i, t, elements) for the i-th of this thread's tokens, t of the chunk: four are read at once, before any is
    // written.
    template <class F>
    __device__ __forceinline__ void each_token(unsigned char* matrix, F&& f) const {
#pragma unroll
        for (int first = 0; first < own_tokens; first += 4) {
            const int t = half * own_tokens + first;
            uint32_t x[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) x[i] = pair_of(matrix, t + i);
#pragma unroll
            for (int i = 0; i < 4; ++i) f(first + i, t + i, unpack(E{}, x[i]));
        }
    }
    __device__ __forceinline__ void put_tile(unsigned char* tile, int t, float2 x) const {
        *reinterpret_cast<uint32_t*>(tile + tile_at<DK>(t, channel)) = pack(E{}, x.x, x.y);
    }

    __device__ __forceinline__ unsigned char* key_tiles() const { return p.keys + tile * keys.bytes; }
    __device__ __forceinline__ unsigned char* query_tiles(int query) const {
        return p.queries + (tile * call.group + query) * QueryTiles(DK).bytes;
    }
    __device__ __forceinline__ unsigned char* value_tiles() const {
        return p.values + tile * (p.DV / sweep_columns) * value_bytes;
    }

    // The gates of this thread's tokens at two channels, made of a projection.
    __device__ __forceinline__ void make_gates(Sums& g, int first, int column) const {
        const Projection& projection = call.projection;
        const int64_t at = (bh * call.N + start) * call.gates + column;
        if (projection.type == Type::Float32) {
            const float* from = static_cast<const float*>(projection.a) + at;
#pragma unroll
            for (int t = 0; t < own_tokens; ++t)
                g[t] = *reinterpret_cast<const float2*>(from + int64_t{min(first + t, n - 1)} * call.gates);
        } else {
            const E* from = static_cast<const E*>(projection.a) + at;
            uint32_t x[own_tokens];
#pragma unroll
            for (int t = 0; t < own_tokens; ++t)
                x[t] = *reinterpret_cast<const uint32_t*>(from + int64_t{min(first + t, n - 1)} * call.gates);
#pragma unroll
            for (int t = 0; t < own_tokens; ++t) g[t] = unpack(E{}, x[t]);
        }
        const MadeGates gate(projection, bh, call.gates);
        const float2 bias = gate.bias ? float2{gate.bias[column], gate.bias[column + 1]} : float2{0.0f, 0.0f};
#pragma unroll
        for (int t = 0; t < own_tokens; ++t) g[t] = {gate(g[t].x + bias.x), gate(g[t].y + bias.y)};
    }
    // The gates of this thread's tokens at its two channels, base 2; 0 past the end. Nothing that is loaded is waited
    // for before the last load: branches stand outside.
    __device__ __forceinline__ void load_gates(Sums& g) const {
        const float* from = call.g + (bh * call.N + start) * call.gates;
        const int first = half * own_tokens, column = paired ? min(channel, call.dk - 2) : min(channel, call.dk - 1),
                  next = min(channel + 1, call.dk - 1);
        if constexpr (made) {
            make_gates(g, first, column);
        } else if (call.gates <= 1) {  // one for all channels
#pragma unroll
            for (int t = 0; t < own_tokens; ++t) {
                const float gate = call.gates == 1 ? from[min(first + t, n - 1)] : 0.0f;
                g[t] = {gate, gate};
            }
        } else {
#pragma unroll
            for (int t = 0; t < own_tokens; ++t) {
                const float* at = from + static_cast<int64_t>(min(first + t, n - 1)) * call.gates;
                if constexpr (paired) g[t] = *reinterpret_cast<const float2*>(at + column);
                else g[t] = {at[column], at[next]};
            }
        }
#pragma unroll
        for (int t = 0; t < own_tokens; ++t) {
            const bool there = first + t < n;
            g[t] = {there && channel < call.dk ? gate_base_2(g[t].x) : 0.0f,
                    there && channel + 1 < call.dk ? gate_base_2(g[t].y) : 0.0f};
        }
    }
    // Starts the copy of the rows of k or q.
    __device__ __forceinline__ void copy_keys(unsigned char* to, const gated::Operand& x, int64_t head) const {
        const char* const start = row(x, head, 0);
        if (!x.whole) return copy_rows<C, DK, prepare_threads>(to, pitch, start, x.token, n, call.dk, false);
        constexpr int pieces = DK / 8, rows = prepare_threads / pieces;
        const int t = threadIdx.x / pieces, c = threadIdx.x % pieces * 8, inside = c < call.dk ? n - t : 0;
        const char* from = start + t * x.token + c * 2;
        const uint32_t at = ptx::shared_address(to) + t * pitch + c * 2;
#pragma unroll
        for (int i = 0; i < C; i += rows) {
            cp_async<16>(at + i * pitch, i < inside ? from : start, i < inside);
            from += rows * x.token;
        }
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
        const unsigned char* keys = I == J       ? s.inverse + J * 16 * pitch
                                    : I == J + 1 ? s.near + J * 16 * pitch
                                    : I == J + 2 ? s.far + J * 16 * pitch
                                                 : s.farthest;
        const uint32_t x = ptx::shared_address(X), k = ptx::shared_address(keys);
        uint32_t a[2][4], f[2][4];
        const auto load = [&](int c) {
            load_a(a[c / 16 % 2], x, pitch, I * 16, c, lane);
            load_b_transposed(f[c / 16 % 2], k, pitch, c, 0, lane);
        };
        load(0);
#pragma unroll
        for (int c = 0; c < DK; c += 16) {
            if (c + 16 < DK) load(c + 16);  // ahead of the products, which the assembler keeps in order
            multiply(d, a[c / 16 % 2], f[c / 16 % 2]);
        }
    }

    // The i-th block of A of a head of queries, zeros above its diagonal.
    __device__ __forceinline__ void write_scores(int i, int query) const {
        int I, J;
        block_of(i, I, J);
        unsigned char* const scores = s.scores;  // not `this`, which would have to lie in memory for score_pairs
        const auto at = [=](int r, int c) { return scores + tile_at<C>(I * 16 + r, J * 16 + c); };
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
    // The blocks of A above those on its diagonal: the sweep multiplies by all of it.
    __device__ __forceinline__ void clear_scores() const {
        for (int i = threadIdx.x; i < C * C / 8; i += prepare_threads) {
            const int r = i / (C / 8), c = i % (C / 8) * 8;
            if (c / 16 > r / 16) *reinterpret_cast<uint4*>(s.scores + tile_at<C>(r, c)) = uint4{};
        }
    }
    // The i-th block of β M, to shared memory, zeros on and above the diagonal.
    __device__ __forceinline__ void write_triangle(int i) const {
        int I, J;
        block_of(i, I, J);
        if (I == J && s.by_pairs[I]) {
            float* const M = &s.M[I * 16][J * 16];
            score_pairs_of(
                call.k, h, I, [=](int r, int c, float score) { M[r * (C + 8) + c] = score; }, s.beta + I * 16, 0);
            return;
        }
        float d[2][4] = {};
        score_block(d, s.K, I, J);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int i2 = 0; i2 < 2; ++i2) {
                const int r = lane / 4 + 8 * i2, c = 8 * half + lane % 4 * 2;
                const float beta = s.beta[I * 16 + r];
                const float2 x = {beta * d[half][2 * i2], beta * d[half][2 * i2 + 1]};
                *reinterpret_cast<float2*>(&s.M[I * 16 + r][J * 16 + c]) =
                    I > J ? float2{ptx::round_to_tf32(x.x), ptx::round_to_tf32(x.y)}
                          : float2{c < r ? x.x : 0.0f, c + 1 < r ? x.y : 0.0f};
            }
        }
    }

    static __device__ __forceinline__ float2 times(float2 x, float2 y) { return {x.x * y.x, x.y * y.y}; }
    static __device__ __forceinline__ float2 power(float2 x) { return {ptx::ex2_approx(x.x), ptx::ex2_approx(x.y)}; }
    static __device__ __forceinline__ float2 plus(float2 x, float2 y) { return {x.x + y.x, x.y + y.y}; }
    __device__ __forceinline__ float2 total_of(int half) const {
        return *reinterpret_cast<const float2*>(&s.total[half][channel]);
    }
    // The product of the gates of sub-blocks from ... to - 1, at this thread's channels.
    __device__ __forceinline__ float2 product(int from, int to) const {
        float2 x{0, 0};
#pragma unroll
        for (int i = 0; i < blocks; ++i)
            if (i >= from && i < to) x = plus(x, plus(total_of(2 * i), total_of(2 * i + 1)));
        return power(x);
    }
    // Keys of this thread's tokens and channels, in their place what the scores take; Kw and `last` to memory. sum: L.
    __device__ __forceinline__ void write_keys(const Sums& sum) const {
        const float2 next = product(I + 1, I + 2), two = product(I + 1, I + 3), rest = product(I + 1, blocks),
                     all = plus(total_of(2 * I), total_of(2 * I + 1));
        unsigned char* const Kw = key_tiles();
        bool fits = true;
        each_token(s.inverse, [&](int i, int t, float2 k) {
            const float2 up = times(k, power({-sum[i].x, -sum[i].y})),
                         y = times(k, power({all.x - sum[i].x, all.y - sum[i].y}));
            fits = fits && fabsf(up.x) <= largest_key && fabsf(up.y) <= largest_key;
            pair_of(s.inverse, t) = pack(E{}, up.x, up.y);
            if constexpr (delta) {
                const float2 x = times(k, power(sum[i]));
                pair_of(s.K, t) = pack(E{}, x.x, x.y);
            }
            if (I < 3) pair_of(s.near, t) = pack(E{}, y.x, y.y);
            if (I < 2) pair_of(s.far, t) = pack(E{}, y.x * next.x, y.y * next.y);
            if (I < 1) pair_of(s.farthest, t) = pack(E{}, y.x * two.x, y.y * two.y);
            put_tile(Kw, t, times(y, rest));
        });
        if (!fits) s.by_pairs[I] = 1;
        if (half == halves - 1) *reinterpret_cast<float2*>(Kw + keys.last_at + channel * 4) = product(0, blocks);
    }
    // Queries there, in their place times scale and e^L; Qe to memory.
    __device__ __forceinline__ void write_queries(const Sums& sum, int query) const {
        const float2 before = product(0, I);
        unsigned char* const Qe = query_tiles(query);
        each_token(s.Q, [&](int i, int t, float2 q) {
            const float2 up = power(sum[i]), y = {call.scale * q.x * up.x, call.scale * q.y * up.y};
            pair_of(s.Q, t) = pack(E{}, y.x, y.y);
            put_tile(Qe, t, times(y, before));
        });
    }

    // By all threads, after a barrier: a tile from shared memory to memory. The copy engine, which would leave them
    // free, took a fifth of the kernel's time to read W and U0 (docs/kernels/gated.md).
    static __device__ __forceinline__ void store_tile(unsigned char* to, const unsigned char* from, uint32_t bytes) {
        for (uint32_t i = threadIdx.x * 16; i < bytes; i += prepare_threads * 16)
            *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(from + i);
    }
    // By all threads: a head of queries, whose copy has been started; with the first one β M, too. A to memory.
    template <bool first>
    __device__ __forceinline__ void make_scores(const Sums& sum, int query) const {
        const bool there = query < call.group;
        constexpr bool triangle = delta && first;
        if (!first) {
            cp_async_wait_all();
            __syncthreads();
        }
        if (has_channels && there) write_queries(sum, query);
        __syncthreads();
        for (int i = warp + (there ? 0 : 10); i < (triangle ? 20 : 10); i += prepare_warps) {
            if (i < 10) write_scores(i, query);
            else if constexpr (triangle) write_triangle(i - 10);
        }
        __syncthreads();
        if (there) store_tile(query_tiles(query) + QueryTiles(DK).A_at, s.scores, tile_bytes(C, C));
        if (query + 1 < call.group) copy_keys(s.Q, call.q, h * call.group + query + 1);
    }

    // V to its tiles, where the sweep cannot read it as it is.
    __device__ __forceinline__ void copy_values() const {
        for (int i = threadIdx.x; i < C * p.DV / 2; i += prepare_threads) {
            const int t = i / (p.DV / 2), c = i % (p.DV / 2) * 2;
            *reinterpret_cast<uint32_t*>(value_tiles() + c / sweep_columns * value_bytes +
                                         tile_at<sweep_columns>(t, c % sweep_columns)) =
                t < n ? load_pair(row(call.v, h, t), c, call.dv) : 0u;
        }
    }

    // K times e^L becomes K times e^G.
    __device__ __forceinline__ void decay_keys() const {
        const float2 before = product(0, I);
        each_token(s.K, [&](int, int t, float2 k) {
            const float2 x = times(k, before);
            pair_of(s.K, t) = pack(E{}, x.x, x.y);
        });
    }
    // P, where A was; the inverse of I + β M to memory, where it is asked for.
    __device__ __forceinline__ void invert() const {
        if (warp < blocks) invert_diagonal(s.M, warp, lane);
        __syncthreads();
        if (warp < blocks) {
            const int J = warp;
            const float beta0 = s.beta[J * 16 + lane / 4], beta1 = s.beta[J * 16 + lane / 4 + 8];
            const uint32_t P = ptx::shared_address(s.scores), T = ptx::shared_address(s.Q);
            TransposedBlock column[blocks];
            invert_column(column, s.M, J, lane);
#pragma unroll
            for (int I = 0; I < blocks; ++I) {
                store_block(column[I], beta0, beta1, lane,
                            [=](int r, int c) { return P + (I * 16 + r) * pitch_of(C) + (J * 16 + c) * 2; });
                if (p.inverse)
                    store_block(column[I], 1.0f, 1.0f, lane,
                                [=](int r, int c) { return T + tile_at<C>(I * 16 + r, J * 16 + c); });
            }
        }
        if (!p.inverse) return;
        ptx::griddepcontrol_wait();
        __syncthreads();
        store_tile(p.inverse + tile * inverse_bytes, s.Q, inverse_bytes);
    }
    // P times the 16 columns from `column` on of a matrix in shared memory, to a tile there: at(row, column).
    template <class At>
    __device__ __forceinline__ void multiply_inverse(const unsigned char* X, uint32_t X_pitch, int column,
                                                     At&& at) const {
        const uint32_t from = ptx::shared_address(X), P = ptx::shared_address(s.scores);
        uint32_t f[blocks][4];
#pragma unroll
        for (int k = 0; k < blocks; ++k) load_b(f[k], from, X_pitch, k * 16, column, lane);
#pragma unroll
        for (int I = 0; I < blocks; ++I) {
            uint32_t a[blocks][4];
            float d[2][4] = {};
#pragma unroll
            for (int k = 0; k <= I; ++k) load_a(a[k], P, pitch_of(C), I * 16, k * 16, lane);
#pragma unroll
            for (int k = 0; k <= I; ++k) multiply(d, a[k], f[k]);
            ptx::stmatrix_x4(at(I * 16 + lane % 16, column + lane / 16 * 8), pack(E{}, d[0][0], d[0][1]),
                             pack(E{}, d[0][2], d[0][3]), pack(E{}, d[1][0], d[1][1]), pack(E{}, d[1][2], d[1][3]));
        }
    }
    // W and, where it is asked for, U0: a warp has 16 columns of one of them.
    __device__ __forceinline__ void write_updates() const {
        static_assert(prepare_warps == 2 * 128 / 16);
        const uint32_t W = ptx::shared_address(s.Q), U0 = ptx::shared_address(s.M);
        const int column = warp % 8 * 16;
        if (warp < 8 && column < DK)
            multiply_inverse(s.K, pitch, column, [=](int t, int c) { return W + tile_at<DK>(t, c); });
        if (warp >= 8 && column < p.DV && p.values)
            multiply_inverse(s.inverse, value_pitch, column, [=](int t, int c) {
                return U0 + c / sweep_columns * value_bytes + tile_at<sweep_columns>(t, c % sweep_columns);
            });
        __syncthreads();
        store_tile(key_tiles() + keys.W_at, s.Q, tile_bytes(C, DK));
        if (p.values)
            store_tile(value_tiles(), reinterpret_cast<const unsigned char*>(s.M),
                       static_cast<uint32_t>(p.DV / sweep_columns) * value_bytes);
    }

    __device__ __forceinline__ void run() const {
        static_assert(160 * pitch >= C * value_pitch && sizeof(Triangle) >= C * 128 * 2);
        copy_keys(s.inverse, call.k, h);
        if (call.group > 0) copy_keys(s.Q, call.q, h * call.group);
        if (threadIdx.x < blocks) s.by_pairs[threadIdx.x] = 0;
        clear_scores();
        float beta = 0;
        if (delta && threadIdx.x < n) beta = call.beta[bh * call.N + start + threadIdx.x];
        Sums sum;
        if (has_channels) {
            load_gates(sum);
#pragma unroll
            for (int t = 1; t < own_tokens; ++t) sum[t] = plus(sum[t - 1], sum[t]);
            *reinterpret_cast<float2*>(&s.total[half][channel]) = sum[own_tokens - 1];
        }
        if constexpr (delta) {
            if (threadIdx.x < C)
                s.beta[threadIdx.x] = p.least_betas && threadIdx.x < n && beta == 0.0f ? least_beta : beta;
        }
        cp_async_wait_all();
        __syncthreads();
        if (!p.tiles_free) ptx::griddepcontrol_wait();  // nobody reads the tiles of the part before any more
        if (has_channels) {
            if (half % 2 == 1) {
                const float2 first = total_of(half - 1);
#pragma unroll
                for (float2& x : sum) x = plus(first, x);
            }
            write_keys(sum);
        }
        make_scores<true>(sum, 0);
        for (int query = 1; query < call.group; ++query) make_scores<false>(sum, query);
        if constexpr (delta) {
            if (p.values)
                copy_rows<C, 128, prepare_threads>(s.inverse, value_pitch, row(call.v, h, 0), call.v.token, n, call.dv,
                                                   call.v.whole);
            if (has_channels) decay_keys();
            invert();
            cp_async_wait_all();
            __syncthreads();
            write_updates();
        } else if (p.values) {
            copy_values();
        }
        ptx::griddepcontrol_wait();  // so that the next kernel, when this one has ended, finds that before it ended too
    }
};

// Of packed sequences the grid goes through the chunks of the round, and for each of them through the heads.
template <int DK, bool delta, bool paired, bool made, bool packed>
__global__ __launch_bounds__(prepare_threads,
                             2) void gated_channels_prepare(const __grid_constant__ Told<packed> told) {
    extern __shared__ __align__(16) unsigned char shared[];
    ptx::griddepcontrol_launch_dependents();
    uint32_t part = 0, tile = blockIdx.x;
    if constexpr (packed) part = told.lists.part_of_chunk[blockIdx.x / static_cast<uint32_t>(told.part.call.all_heads)];
    const Part& p = own_part(told, part);
    if constexpr (packed) {
        const uint32_t heads = static_cast<uint32_t>(p.call.all_heads), chunk = blockIdx.x / heads;
        tile = blockIdx.x % heads * p.chunks + chunk - told.lists.parts[part].first_chunk;
    }
    Prepare<DK, delta, paired, made>(p, *reinterpret_cast<PrepareShared<DK, delta>*>(shared), tile).run();
}

template <int DK, bool delta, bool paired, bool made, class T>
void prepare(const T& told, bool after, cudaStream_t stream) {
    constexpr bool packed = std::is_same_v<T, RoundPart>;
    const Part& p = shared_part(told);
    launch(gated_channels_prepare<DK, delta, paired, made, packed>, "launching gated_channels_prepare",
           dim3(static_cast<unsigned>(p.call.all_heads * p.chunks)), prepare_threads, sizeof(PrepareShared<DK, delta>),
           1, after, stream, told);
}
template <int DK, bool delta, class T>
void prepare(const T& told, bool after, cudaStream_t stream) {
    const gated::Call& call = shared_part(told).call;
    if (call.projection.a) prepare<DK, delta, true, true>(told, after, stream);
    else if (has_pairs(call)) prepare<DK, delta, true, false>(told, after, stream);
    else prepare<DK, delta, false, false>(told, after, stream);
}
template <class T>
void prepare(const T& told, bool after, cudaStream_t stream) {
    const bool narrow = shared_part(told).DK == 64, delta = shared_part(told).call.beta != nullptr;
    if (narrow && delta) prepare<64, true>(told, after, stream);
    else if (narrow) prepare<64, false>(told, after, stream);
    else if (delta) prepare<128, true>(told, after, stream);
    else prepare<128, false>(told, after, stream);
}

}  // namespace

void launch_prepare(const Part& p, cudaStream_t stream, bool after) { prepare(p, after, stream); }
void launch_prepare(const RoundPart& p, cudaStream_t stream) { prepare(p, false, stream); }

}  // namespace causeway::gpu::channels
