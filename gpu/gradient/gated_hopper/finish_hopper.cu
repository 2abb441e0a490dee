// Everything that is left when the gradient of the state is known: dQ, dK, dV, dg, dβ, chunk by chunk in parallel.
// README.md has the letters.
#include <type_traits>

#include "gpu/gated/channels/gates.cuh"
#include "gpu/gated/channels/kept.cuh"
#include "gpu/gated/channels/operands.cuh"
#include "gpu/gated/fma.cuh"
#include "gpu/gradient/gated_hopper/part.hpp"
#include "gpu/kit/launch.hpp"
#include "gpu/kit/warp.cuh"

namespace causeway::gpu::gradient {

namespace {

using namespace channels;
using gated::head_of, gated::Operand;

constexpr int finish_threads = 512, finish_warps = finish_threads / 32;
constexpr uint32_t wide_pitch = pitch_of(128), square = pitch_of(C);

template <int DK>
struct FinishShared {
    static constexpr uint32_t pitch = pitch_of(DK);
    static constexpr int row = DK + 4;  // floats of a row of a sum
    // The state before the chunk and the gradient of the state after it; then dQ and what of dK is read, still without
    // the gates of the own sub-block.
    union {
        unsigned char S[DK * wide_pitch];
        float read_q[C * row];
    };
    union {
        unsigned char E[DK * wide_pitch];
        float read_k[C * row];
    };
    union {
        struct {
            unsigned char dO[C * wide_pitch], U[C * wide_pitch];
        } values;
        float written[C * row];  // then what of dK is written
    };
    unsigned char X[C * wide_pitch];                             // dU, then -dX
    unsigned char inverse[inverse_bytes];                        // (I + diag(β) M)⁻¹
    unsigned char Q[C * pitch], K[C * pitch], K_end[C * pitch];  // scale · Q and K times 2^L; K times 2^(T - L)
    unsigned char dA[C * square], dM[C * square];                // below the diagonal blocks
    float own_dA[blocks][16][16], own_dM[blocks][16][16];        // on them
    float decay[blocks][DK];                                     // 2^T
    float passing[6][DK];    // by sub-blocks (I, J), J < I: what I reads of what is older than J
    float remaining[3][DK];  // by sub-block: what of it is read after the chunk
    float through[4][DK];    // S_0 ⊙ E, summed over a quarter of the columns
    float dbeta[8][C], beta[C];
    float gate[finish_warps][16];
};

// Sums of 4 or 8 values over the eight lanes that have the same columns of an accumulator: lane 4 r + c gets that of
// value r % n. Each step gives half of the values away.
template <int n>
__device__ __forceinline__ float sums_of_rows(const float (&x)[n], int lane) {
    if constexpr (n == 1) {
        return x[0];
    } else {
        constexpr int step = 2 * n;  // lanes apart
        const bool upper = lane & step;
        float half[n / 2];
#pragma unroll
        for (int m = 0; m < n / 2; ++m) {
            const float keep = upper ? x[m + n / 2] : x[m], give = upper ? x[m] : x[m + n / 2];
            half[m] = keep + __shfl_xor_sync(all_lanes, give, step);
        }
        return sums_of_rows(half, lane);
    }
}

// grouped: several heads of queries share k and v. They are taken in turn, the first one together with the keys.
template <int DK, bool delta, bool has_gates, bool grouped>
struct Finish {
    using Shared = FinishShared<DK>;
    static constexpr uint32_t pitch = Shared::pitch;
    static constexpr int width = DK / 4, tiles = width / 16;  // columns of a warp's part of the sums over rows of K
    using Rows = float[tiles][2][4];                          // that part: 16 tokens

    Shared& s;
    const BackwardChunks& x;
    const Part& p;
    const gated::Call& call;
    const int64_t bh, chunk, b, h, start, tile;
    const int n;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int block = warp % blocks, first = warp / blocks * width;  // of Rows
    const int channel = threadIdx.x % DK, I = threadIdx.x / DK;      // of this thread, of the tokens of a sub-block
    const bool has_channel = I < blocks;

    __device__ __forceinline__ Finish(const BackwardChunks& x, Shared& s)
        : s(s),
          x(x),
          p(x.part),
          call(p.call),
          bh(blockIdx.x / p.chunks),
          chunk(blockIdx.x % p.chunks),
          b(bh / call.heads),
          h(bh % call.heads),
          start(p.first + chunk * C),
          tile(blockIdx.x),
          n(static_cast<int>(min(p.first + p.tokens - start, int64_t{C}))) {}

    __device__ __forceinline__ char* rows(const Operand& operand, int64_t head) const {
        return head_of(operand, b, head) + start * operand.token;
    }
    __device__ __forceinline__ int64_t query_head(int query) const { return grouped ? h * call.group + query : h; }
    // Tiles of 32 columns side by side as rows of all columns.
    template <int tokens>
    __device__ __forceinline__ void copy_tiles(unsigned char* to, const KeptTiles& kept) const {
        constexpr int at_once = finish_threads / 4 / tokens;  // tiles
        const int c = threadIdx.x % 4, r = threadIdx.x / 4 % tokens, side = threadIdx.x / 4 / tokens;
        const KeptChunk from(kept, bh, b, h, chunk, p.chunks);
        to += r * wide_pitch + side * 64 + c * 16;
        uint32_t offset = side * tile_bytes(tokens, sweep_columns) + tile_at<sweep_columns>(r, c * 8);
        for (int i = side; i < p.DV / sweep_columns;
             i += at_once, to += at_once * 64, offset += at_once * tile_bytes(tokens, sweep_columns))
            cp_async<16>(to, from.at(offset), true);
    }
    // Starts all copies: one group for what the scores take, one for the states.
    __device__ __forceinline__ void load(int query) const {
        const auto copy = [&]<int columns>(std::integral_constant<int, columns>, unsigned char* to,
                                           const Operand& operand, int64_t head, int width) {
            copy_rows<C, columns, finish_threads>(to, pitch_of(columns), rows(operand, head), operand.token, n, width,
                                                  operand.whole);
        };
        constexpr std::integral_constant<int, DK> keys;
        constexpr std::integral_constant<int, 128> values;
        copy(keys, s.Q, call.q, query_head(query), call.dk);
        copy(values, s.values.dO, x.dO, query_head(query), call.dv);
        if constexpr (delta) copy_tiles<C>(s.values.U, p.updates);
        else copy(values, s.values.U, call.v, h, call.dv);
        if (query == 0) {
            copy(keys, s.K_end, call.k, h, call.dk);
            ptx::griddepcontrol_wait();
            ptx::griddepcontrol_launch_dependents();  // the tiles of this part are read, but for what is copied here
            copy_tiles<C>(s.X, x.dU);
            if constexpr (delta) {
                for (uint32_t i = threadIdx.x; i < inverse_bytes / 16; i += finish_threads)
                    cp_async<16>(s.inverse + i * 16, p.inverse + tile * inverse_bytes + i * 16, true);
                if (threadIdx.x < C)
                    s.beta[threadIdx.x] = threadIdx.x < n ? call.beta[bh * call.N + start + threadIdx.x] : 0.0f;
            }
        }
        cp_async_commit();
        copy_tiles<DK>(s.S, p.states);
        if (query == 0) copy_tiles<DK>(s.E, x.after);
        cp_async_commit();
    }
    // Where β is 0, least_beta wrote something into U; nothing is written there.
    __device__ __forceinline__ void clear_unwritten() const {
        for (int i = threadIdx.x; i < C * p.DV / 2; i += finish_threads) {
            const int t = i % C, c = i / C * 2;
            if (s.beta[t] == 0.0f) *reinterpret_cast<uint32_t*>(s.values.U + t * wide_pitch + c * 2) = 0u;
        }
        __syncthreads();
    }

    // This thread's channel of the 16 tokens of its sub-block, zeros outside: q and k as they are, a pair of them to a
    // token; L, the running sum of its gates, base 2.
    struct Channel {
        uint32_t qk[16];
        float L[16];
    };
    // Gates as they are; then L of them.
    __device__ __forceinline__ void fetch_gates(Channel& own) const {
        if constexpr (has_gates) {
            const int column = min(channel, call.dk - 1), token = I * 16;
            const int64_t step = call.gates;
            const float* g = call.g + (bh * call.N + start + min(token, n - 1)) * step + (step > 1 ? column : 0);
#pragma unroll
            for (int t = 0; t < 16; ++t) {
                own.L[t] = *g;
                if (token + t + 1 < n) g += step;
            }
        }
    }
    __device__ __forceinline__ void sum_gates(Channel& own) const {
        const bool inside = channel < call.dk;
#pragma unroll
        for (int t = 0; t < 16; ++t) {
            const bool there = has_gates && inside && I * 16 + t < n;
            own.L[t] = (t > 0 ? own.L[t - 1] : 0.0f) + (there ? gate_base_2(own.L[t]) : 0.0f);
        }
    }
    __device__ __forceinline__ E& element(unsigned char* of, int t) const {
        return *reinterpret_cast<E*>(of + (I * 16 + t) * pitch + channel * 2);
    }
    __device__ __forceinline__ static float power(float x) { return has_gates ? ptx::ex2_approx(x) : 1.0f; }

    // K and Q times the gates of their sub-block, in place.
    __device__ __forceinline__ void write_operands(Channel& own, int query) const {
#pragma unroll
        for (int t = 0; t < 16; ++t) {
            const float q = static_cast<float>(element(s.Q, t)),
                        k = query == 0 ? static_cast<float>(element(s.K_end, t)) : unpack(E{}, own.qk[t]).y;
            own.qk[t] = pack(E{}, q, k);
            const float up = power(own.L[t]);
            element(s.Q, t) = E(call.scale * q * up);
            if (query > 0) continue;
            if (delta) element(s.K, t) = E(k * up);
            element(s.K_end, t) = E(k * power(own.L[15] - own.L[t]));
        }
        if (query == 0) s.decay[I][channel] = power(own.L[15]);
    }

    // S_0 ⊙ E summed over columns.
    __device__ __forceinline__ void sum_through() const {
        if (!has_channel) return;
        const int part = I, each = p.DV / 4;
        const unsigned char *before = s.S + channel * wide_pitch + part * each * 2,
                            *after = s.E + channel * wide_pitch + part * each * 2;
        float sum = 0;
        for (int c = 0; c < each; c += 8) {
            const uint4 f = *reinterpret_cast<const uint4*>(before + c * 2),
                        g = *reinterpret_cast<const uint4*>(after + c * 2);
            const auto add = [&](uint32_t x, uint32_t y) {
                const float2 a = unpack(E{}, x), b = unpack(E{}, y);
                sum = fmaf(a.x, b.x, fmaf(a.y, b.y, sum));
            };
            add(f.x, g.x), add(f.y, g.y), add(f.z, g.z), add(f.w, g.w);
        }
        s.through[part][channel] = sum;
    }

    // f(row, column, i, first, second) for the pairs of an accumulator of 16×16 at (token, column); i: 1 in its lower
    // half.
    template <class F>
    __device__ __forceinline__ void each_pair(float (&d)[2][4], int token, int column, F&& f) const {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int i = 0; i < 2; ++i)
                f(token + lane / 4 + 8 * i, column + 8 * half + lane % 4 * 2, i, d[half][2 * i], d[half][2 * i + 1]);
        }
    }
    // Rows of a tile to memory; negative: times -1.
    template <bool negative = false>
    __device__ __forceinline__ void store_rows(const Operand& to, int64_t head, const unsigned char* from,
                                               uint32_t from_pitch, int width) const {
        constexpr uint32_t sign = negative ? 0x80008000u : 0u;
        char* at = rows(to, head);
        if (to.whole) {
            for (int i = threadIdx.x; i < C * 16; i += finish_threads) {
                const int t = i / 16, c = i % 16 * 8;
                if (t >= n || c >= width) continue;
                const uint4 f = *reinterpret_cast<const uint4*>(from + t * from_pitch + c * 2);
                *reinterpret_cast<uint4*>(at + t * to.token + c * 2) = {f.x ^ sign, f.y ^ sign, f.z ^ sign, f.w ^ sign};
            }
            return;
        }
        for (int i = threadIdx.x; i < C * width; i += finish_threads) {
            const int t = i / width, c = i % width;
            if (t < n)
                reinterpret_cast<uint16_t*>(at + t * to.token)[c] = static_cast<uint16_t>(
                    *reinterpret_cast<const uint16_t*>(from + t * from_pitch + c * 2) ^ (sign & 0xFFFFu));
        }
    }
    // dV, which is minus what X is with the delta rule.
    __device__ __forceinline__ void store_values() const { store_rows<delta>(x.dv, h, s.X, wide_pitch, call.dv); }
    // X becomes -dX, dX = diag(β) Z, Z = (I + diag(β) M)⁻ᵀ dU; dβ_t = Z_t · U_t / β_t.
    // Returns whether a β is 0.
    __device__ __forceinline__ bool solve() const {
        const uint32_t inverse = ptx::shared_address(s.inverse), dU = ptx::shared_address(s.X);
        float Z[2][2][4] = {};
        const int items = blocks * p.DV / 16;
#pragma unroll
        for (int m = 0; m < 2; ++m) {
            const int item = warp + m * finish_warps, token = item % blocks * 16, column = item / blocks * 16;
            if (item >= items) continue;
#pragma unroll
            for (int k = 0; k < C; k += 16) {
                if (k < token) continue;
                uint32_t a[4], f[4];
                load_a_transposed<C>(a, inverse, token, k, lane);
                load_b(f, dU, wide_pitch, k, column, lane);
                multiply(Z[m], a, f);
            }
        }
        __syncthreads();
#pragma unroll
        for (int m = 0; m < 2; ++m) {
            const int item = warp + m * finish_warps, token = item % blocks * 16, column = item / blocks * 16;
            if (item >= items) continue;
            float sums[2] = {};
            each_pair(Z[m], token, column, [&](int t, int c, int i, float z0, float z1) {
                const float2 u = unpack(E{}, *reinterpret_cast<const uint32_t*>(s.values.U + t * wide_pitch + c * 2));
                sums[i] = fmaf(z0, u.x, fmaf(z1, u.y, sums[i]));
                const float beta = s.beta[t];
                *reinterpret_cast<uint32_t*>(s.X + t * wide_pitch + c * 2) = pack(E{}, -beta * z0, -beta * z1);
            });
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                sums[i] += __shfl_xor_sync(all_lanes, sums[i], 1);
                sums[i] += __shfl_xor_sync(all_lanes, sums[i], 2);
                if (lane % 4 == 0) s.dbeta[column / 16][token + lane / 4 + 8 * i] = sums[i];
            }
        }
        const bool any_zero = __syncthreads_or(threadIdx.x < n && s.beta[threadIdx.x % C] == 0.0f);
        if (threadIdx.x < n) {
            const int t = static_cast<int>(threadIdx.x);
            float sum = 0;
            for (int c = 0; c < p.DV / 16; ++c) sum += s.dbeta[c][t];
            x.dbeta[bh * call.N + start + t] = sum / (s.beta[t] == 0.0f ? least_beta : s.beta[t]);
        }
        return any_zero;
    }

    // dA = dO Uᵀ on and below its diagonal, dM = -dX Uᵀ below it: sub-block by sub-block.
    __device__ __forceinline__ void write_scores(bool keys) const {
        const uint32_t U = ptx::shared_address(s.values.U);
        for (int item = warp; item < (keys ? 20 : 10); item += finish_warps) {
            const bool read = item >= 10;
            int I, J;
            block_of(item % 10, I, J);
            const uint32_t rows = ptx::shared_address(read ? s.X : s.values.dO);
            float d[2][4] = {};
            for (int c = 0; c < p.DV; c += 16) {
                uint32_t a[4], f[4];
                load_a(a, rows, wide_pitch, I * 16, c, lane);
                load_b_transposed(f, U, wide_pitch, c, J * 16, lane);
                multiply(d, a, f);
            }
            if (I > J) {
                each_pair(d, I * 16, J * 16, [&](int t, int j, int, float f0, float f1) {
                    *reinterpret_cast<uint32_t*>((read ? s.dM : s.dA) + t * square + j * 2) = pack(E{}, f0, f1);
                });
                continue;
            }
            each_pair(d, 0, 0, [&](int t, int j, int, float f0, float f1) {
                *reinterpret_cast<float2*>(read ? &s.own_dM[I][t][j] : &s.own_dA[I][t][j]) = {f0, f1};
            });
        }
    }

    // to += 16 tokens of X [token][column of v] times a state transposed, and of Y to `more`.
    template <bool both>
    __device__ __forceinline__ void times_state(Rows& to, const unsigned char* X, Rows& more, const unsigned char* Y,
                                                const unsigned char* state) const {
        const uint32_t x_at = ptx::shared_address(X), y_at = ptx::shared_address(Y), at = ptx::shared_address(state);
#pragma unroll 2
        for (int c = 0; c < p.DV; c += 16) {
            uint32_t a[4], e[4];
            load_a(a, x_at, wide_pitch, block * 16, c, lane);
            if constexpr (both) load_a(e, y_at, wide_pitch, block * 16, c, lane);
#pragma unroll
            for (int j = 0; j < tiles; ++j) {
                uint32_t f[4];
                load_b_transposed(f, at, wide_pitch, c, first + 16 * j, lane);
                multiply(to[j], a, f);
                if constexpr (both) multiply(more[j], e, f);
            }
        }
    }
    __device__ __forceinline__ void times_decay(Rows& to, int I) const {
#pragma unroll
        for (int j = 0; j < tiles; ++j) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float2 f =
                    *reinterpret_cast<const float2*>(&s.decay[I][first + 16 * j + 8 * half + lane % 4 * 2]);
                to[j][half][0] *= f.x, to[j][half][1] *= f.y, to[j][half][2] *= f.x, to[j][half][3] *= f.y;
            }
        }
    }
    // to += X (transposed: Xᵀ), 16×16 at (m, k) of scores, times 16 rows from k on of `rows`.
    template <bool transposed>
    __device__ __forceinline__ void add_block(Rows& to, const unsigned char* X, int m, int k,
                                              const unsigned char* rows) const {
        uint32_t a[4];
        if constexpr (transposed) load_a_transposed(a, ptx::shared_address(X), square, m, k, lane);
        else load_a(a, ptx::shared_address(X), square, m, k, lane);
#pragma unroll
        for (int j = 0; j < tiles; ++j) {
            uint32_t f[4];
            load_b(f, ptx::shared_address(rows), pitch, k, first + 16 * j, lane);
            multiply(to[j], a, f);
        }
    }
    // The sums over this warp's 16 tokens of rows ⊙ sums, for the columns of lanes 0 ... 3, added to `to`.
    __device__ __forceinline__ void add_products(float (&to)[tiles * 4], const Rows& sums,
                                                 const unsigned char* rows) const {
#pragma unroll
        for (int j = 0; j < tiles; ++j) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int t = block * 16 + lane / 4 + 8 * i, c = first + 16 * j + 8 * half + lane % 4 * 2;
                    const float2 f = unpack(E{}, *reinterpret_cast<const uint32_t*>(rows + t * pitch + c * 2));
                    float &even = to[4 * j + 2 * half], &odd = to[4 * j + 2 * half + 1];
                    even = fmaf(f.x, sums[j][half][2 * i], even);
                    odd = fmaf(f.y, sums[j][half][2 * i + 1], odd);
                }
            }
        }
    }
    __device__ __forceinline__ void put_products(float* to, const float (&sums)[tiles * 4]) const {
        float sum = sums_of_rows(sums, lane);
        if constexpr (tiles == 1) sum += __shfl_xor_sync(all_lanes, sum, 16);
        const int i = lane / 4 % (tiles * 4);
        to[first + i / 4 * 16 + i / 2 % 2 * 8 + lane % 4 * 2 + i % 2] = sum;
    }
    __device__ __forceinline__ void put_rows(float* to, const Rows& from) const {
#pragma unroll
        for (int j = 0; j < tiles; ++j) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int t = block * 16 + lane / 4 + 8 * i, c = first + 16 * j + 8 * half + lane % 4 * 2;
                    *reinterpret_cast<float2*>(to + t * Shared::row + c) = {from[j][half][2 * i],
                                                                            from[j][half][2 * i + 1]};
                }
            }
        }
    }

    // What a token reads from outside its sub-block, and what is read of it there. first: the keys' part too.
    __device__ __forceinline__ void meet_others(bool first_query) const {
        const bool keys = delta && first_query;
        Rows read_q = {}, read_k = {}, written = {};
        if (keys) times_state<true>(read_q, s.values.dO, read_k, s.X, s.S);
        else times_state<false>(read_q, s.values.dO, read_k, s.X, s.S);
        if (first_query) times_state<false>(written, s.values.U, written, s.values.U, s.E);
        __syncthreads();  // the scores are written
        for (int J = 0; J < block; ++J) {
            if constexpr (has_gates) {
                float sums[tiles * 4] = {};
                add_products(sums, read_q, s.Q);
                if (keys) add_products(sums, read_k, s.K);
                put_products(s.passing[block * (block - 1) / 2 + J], sums);
                times_decay(read_q, J);
                if (keys) times_decay(read_k, J);
            }
            add_block<false>(read_q, s.dA, block * 16, J * 16, s.K_end);
            if (keys) add_block<false>(read_k, s.dM, block * 16, J * 16, s.K_end);
        }
        if constexpr (has_gates) {
            if (first_query && block < blocks - 1) {
                float sums[tiles * 4] = {};
                add_products(sums, written, s.K_end);
                put_products(s.remaining[block], sums);
            }
        }
        for (int I = blocks - 1; I > block; --I) {
            if constexpr (has_gates) times_decay(written, I);
            add_block<true>(written, s.dA, block * 16, I * 16, s.Q);
            if (keys) add_block<true>(written, s.dM, block * 16, I * 16, s.K);
        }
        __syncthreads();  // the states, dO and U are read
        put_rows(s.read_q, read_q);
        if (keys) put_rows(s.read_k, read_k);
        put_rows(s.written, written);
        __syncthreads();
    }

    // What passes all gates of this thread's sub-block.
    __device__ __forceinline__ float passing_all(bool first_query) const {
        const auto decay = [&](int from, int to) {
            float f = 1.0f;
#pragma unroll
            for (int J = 0; J < blocks; ++J)
                if (J >= from && J < to) f *= s.decay[J][channel];
            return f;
        };
        float sum = 0;
#pragma unroll
        for (int part = 0; part < 4; ++part) sum += first_query ? s.through[part][channel] : 0.0f;
        sum *= decay(0, blocks);
#pragma unroll
        for (int other = 0; other < blocks; ++other) {
            if (other > I) sum = fmaf(s.passing[other * (other - 1) / 2 + I][channel], decay(I, other), sum);
            if (other < I && first_query) sum = fmaf(s.remaining[other][channel], decay(other + 1, blocks), sum);
        }
        return sum;
    }

    // The pairs within this thread's sub-block: dQ over Q, and the sums of dk and dg.
    __device__ __forceinline__ void meet_own(const Channel& own, int query, float (&dk)[16], float (&dg)[16]) const {
        const bool keys = delta && query == 0;
        float k[16];
#pragma unroll
        for (int t = 0; t < 16; ++t) k[t] = unpack(E{}, own.qk[t]).y;
        const auto sum_at = [&](const float* sums, int t) { return sums[(I * 16 + t) * Shared::row + channel]; };
        float passing = 0;
        if constexpr (has_gates) passing = passing_all(query == 0);
#pragma unroll
        for (int t = 0; t < 16; ++t) {
            const float written = power(own.L[15] - own.L[t]) * sum_at(s.written, t);
            dk[t] += written;
            if constexpr (has_gates) {
                dg[t] += passing;
                passing = fmaf(k[t], written, passing);
            }
        }
        float newer = 0;
#pragma unroll
        for (int t = 15; t >= 0; --t) {
            const float up = power(own.L[t]), q = call.scale * unpack(E{}, own.qk[t]).x;
            float dq = up * sum_at(s.read_q, t), read = keys ? up * sum_at(s.read_k, t) : 0.0f;
            if constexpr (has_gates) {
                newer = fmaf(q, dq, newer);
                newer = fmaf(k[t], read, newer);
                dg[t] += newer;
            }
            float passed = 0;
#pragma unroll
            for (int j = 0; j <= t; ++j) {
                const float decay = t > j ? power(own.L[t] - own.L[j]) : 1.0f;
                const float score = s.own_dA[I][t][j] * decay;
                dq = fmaf(score, k[j], dq);
                float back = score * q;
                if (keys && j < t) {
                    const float reading = s.own_dM[I][t][j] * decay;
                    read = fmaf(reading, k[j], read);
                    back = fmaf(reading, k[t], back);
                }
                dk[j] += back;
                if (has_gates && j < t) {
                    passed = fmaf(back, k[j], passed);
                    dg[j + 1] += passed;
                }
            }
            dk[t] += read;
            element(s.Q, t) = E(call.scale * dq);
        }
    }
    __device__ __forceinline__ void write_gates(const float (&dg)[16]) const {
        if (call.gates > 1) {
            if (!has_channel || channel >= call.dk) return;
            float* to = x.dg + (bh * call.N + start + I * 16) * call.gates + channel;
#pragma unroll
            for (int t = 0; t < 16; ++t, to += call.gates)
                if (I * 16 + t < n) *to = dg[t];
            return;
        }
        // One gate for all channels: the sum over them.
#pragma unroll
        for (int t = 0; t < 16; ++t) {
            const float sum = sum_of_warp(dg[t]);
            if (lane == 0) s.gate[warp][t] = sum;
        }
        __syncthreads();
        if (threadIdx.x >= n) return;
        constexpr int warps = DK / 32;
        const int t = threadIdx.x;
        float sum = 0;
        for (int i = 0; i < warps; ++i) sum += s.gate[t / 16 * warps + i][t % 16];
        x.dg[bh * call.N + start + t] = sum;
    }

    __device__ __forceinline__ void run() const {
        Channel own;
        float dk[16] = {}, dg[16] = {};
        bool any_unwritten = false;
        const auto meet = [&](int query) {
            if (has_channel && query == 0) fetch_gates(own);
            load(query);
            if (has_channel && query == 0) sum_gates(own);
            cp_async_wait<1>();
            __syncthreads();
            if (has_channel) write_operands(own, query);
            if constexpr (delta) {
                if (query == 0) any_unwritten = solve();
                if (any_unwritten) clear_unwritten();
            }
            write_scores(delta && query == 0);
            cp_async_wait<0>();
            __syncthreads();
            if (query == 0) {
                if constexpr (has_gates) sum_through();
                if constexpr (!grouped) store_values();
            }
            meet_others(query == 0);
            if (has_channel) meet_own(own, query, dk, dg);
            __syncthreads();
            store_rows(x.dq, query_head(query), s.Q, pitch, call.dk);
        };
        meet(0);
        if constexpr (grouped) {
#pragma unroll 1
            for (int query = 1; query < call.group; ++query) {
                __syncthreads();
                meet(query);
            }
        }
        if (has_channel) {
#pragma unroll
            for (int t = 0; t < 16; ++t) element(s.K_end, t) = E(dk[t]);
        }
        __syncthreads();
        store_rows(x.dk, h, s.K_end, pitch, call.dk);
        if constexpr (grouped) store_values();  // where U was, which each head of queries has read
        if constexpr (has_gates) write_gates(dg);
    }
};

// One block: one chunk of one batch-head.
template <int DK, bool delta, bool has_gates, bool grouped>
__global__ __launch_bounds__(finish_threads, 1) void gated_finish_chunks(const __grid_constant__ BackwardChunks x) {
    extern __shared__ __align__(16) unsigned char shared[];
    Finish<DK, delta, has_gates, grouped>(x, *reinterpret_cast<FinishShared<DK>*>(shared)).run();
}

// f.template operator()<DK, delta, has_gates, grouped>() for those of a call.
template <class F>
void with_kinds(const Part& p, F&& f) {
    const auto choose = [](bool yes, auto&& then) {
        if (yes) then(std::true_type{});
        else then(std::false_type{});
    };
    choose(p.DK == 64, [&](auto narrow) {
        choose(p.call.beta, [&](auto delta) {
            choose(p.call.gates > 0, [&](auto has_gates) {
                choose(p.call.group > 1, [&](auto grouped) {
                    f.template operator()<narrow() ? 64 : 128, delta(), has_gates(), grouped()>();
                });
            });
        });
    });
}

}  // namespace

void launch_finish_chunks(const BackwardChunks& x, cudaStream_t stream) {
    with_kinds(x.part, [&]<int DK, bool delta, bool has_gates, bool grouped>() {
        launch(gated_finish_chunks<DK, delta, has_gates, grouped>, "launching gated_finish_chunks",
               dim3(static_cast<unsigned>(x.part.call.all_heads * x.part.chunks)), finish_threads,
               sizeof(FinishShared<DK>), 1, x.states_before, stream, x);
    });
}

}  // namespace causeway::gpu::gradient
