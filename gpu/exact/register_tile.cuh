// The engine of register_tile.hpp.
//
// A block of 128 threads owns some columns of one head and all its ranks. Thread (g, column group c) holds R ranks × 4
// columns of the state: G = 16 or 8 groups of ranks in the upper bits of the lane, 32/G column groups in the lower, so
// that a block has 32 or 64 columns. Tiles of 16 tokens are copied to shared memory three tiles ahead: k and q of
// Float32 where they are used, everything else to a place of the copying thread, which converts it a tile before it is
// needed. Outputs are summed over the ranks one group of tokens late, among the products of the next.
//
// Decay costs nothing per token: within a tile of n tokens the state is kept in units of its last token,
//   c ← γ^n c;   for token j: c += k_j (γ^(n-1-j) v_j),   o_j = γ^-(n-1-j) q_j c,
// so that only v and o are scaled, factors on the state are at most 1, and nothing overflows. The factors lie above
// 2^-60 for γ >= 2^-4; stronger decays multiply the state at every token.
#pragma once

#include <algorithm>
#include <cmath>

#include "gpu/exact/check.hpp"
#include "gpu/exact/factor.cuh"
#include "gpu/exact/register_tile.hpp"
#include "gpu/kit/async_copy.cuh"
#include "gpu/kit/element.cuh"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::tile {

constexpr int threads = 128;
constexpr double direct_below = -4;  // log2 γ

template <class E>
struct alignas(4 * sizeof(E)) Four {
    E x[4];
};

// Shared memory, in floats. k and q: [token][rank], a ring of tiles (`direct`: copied there) or two. v: two tiles in
// four copies, in copy p of four columns their order j ^ p, and the fours in the order of place(): the lanes of a warp
// then read different banks. Then fours as copied, three tiles of them, and the powers of γ.
template <class E, int R, int G>
struct Layout {
    static constexpr bool direct = sizeof(E) == 4;
    static constexpr int ahead = 3, tiles = direct ? ahead + 1 : 2;
    static constexpr int vector = R < 4 ? R : 4, vectors = R / vector, ranks = G * R;
    static constexpr int lanes = 32 / G, width = width_of(G), v_fours = width / 4;  // column groups of a warp; columns
    static constexpr int rows = tokens * ranks / 4 / threads;  // fours of k, and of q, that a thread copies
    static constexpr int v_rows = tokens * v_fours / threads;  // ... of v
    static constexpr int kept = direct ? 0 : 2 * rows, fours = kept + v_rows;  // ... that it keeps to convert
    static constexpr int four = static_cast<int>(4 * sizeof(E) / sizeof(float));
    static constexpr int kq_size = 2 * tokens * ranks, v_size = tokens * 4 * width, raw_size = fours * threads * four;
    static constexpr int kq = 0, v = kq + tiles * kq_size, raw = v + 2 * v_size, powers = raw + ahead * raw_size,
                         floats = powers + 2 * tokens;
    // Of four columns c in copy p.
    __device__ static __forceinline__ int place(int c, int p) { return G == 16 ? c ^ 2 * p : c ^ 4 * (p & 1); }
};

template <class E, int R, int G, Order order>
struct Engine {
    using L = Layout<E, R, G>;
    static constexpr int width = L::width;
    static constexpr bool outputs = order != Order::state;

    const Args& a;
    float* shared;
    const E *Q, *K, *V;
    E* O;
    int column0;  // first of the block
    int group, c4, column, lane;
    double log2_gamma;

    float c[R][4] = {};

    __device__ Engine(const Args& args, float* memory, int64_t b, int64_t h, int block_column)
        : a(args), shared(memory), column0(block_column), log2_gamma(args.log2_gamma[h]) {
        const int64_t head = a.first_head + h;
        const auto at = [&](const void* p, const int64_t(&s)[3]) {
            return static_cast<const E*>(p) + b * s[0] + head * s[1];
        };
        Q = at(a.q, a.q_stride), K = at(a.k, a.k_stride), V = at(a.v, a.v_stride),
        O = const_cast<E*>(at(a.o, a.o_stride));
        lane = threadIdx.x % 32;
        group = lane / L::lanes;
        c4 = threadIdx.x / 32 * L::lanes + lane % L::lanes;
        column = column0 + 4 * c4;
    }

    __device__ __forceinline__ int rank(int e) const {
        return e / L::vector * G * L::vector + group * L::vector + e % L::vector;
    }
    // The column of register j: reductions over ranks then need no selections.
    __device__ __forceinline__ int column_of(int j) const { return column + (j ^ (group & 3)); }

    __device__ void load_state(const float* from) {
#pragma unroll
        for (int e = 0; e < R; ++e) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                // All loads at once: behind a branch each would wait for the one before.
                const bool there = rank(e) < a.r && column_of(j) < a.d;
                const float x = from[there ? int64_t{rank(e)} * a.d + column_of(j) : 0];
                c[e][j] = there ? x : 0.0f;
            }
        }
    }
    __device__ void store_state(float* to) const {
#pragma unroll
        for (int e = 0; e < R; ++e) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                if (rank(e) < a.r && column_of(j) < a.d) to[int64_t{rank(e)} * a.d + column_of(j)] = c[e][j];
            }
        }
    }

    // Starts copying four elements from column `at` of a row, of which `there` are to be read: all or none where
    // `quads`.
    template <bool quads>
    __device__ static __forceinline__ void copy(void* to, const E* row, int at, int there) {
        if constexpr (quads) {
            cp_async<4 * sizeof(E)>(to, row + (there > 0 ? at : 0), there > 0);
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if constexpr (sizeof(E) == 4)
                    cp_async<4>(static_cast<E*>(to) + i, row + (i < there ? at + i : 0), i < there);
                else static_cast<E*>(to)[i] = i < there ? row[at + i] : static_cast<E>(0.0f);
            }
        }
    }
    __device__ __forceinline__ Four<E>* raw(int tile, int i) const {
        return reinterpret_cast<Four<E>*>(shared + L::raw + tile % L::ahead * L::raw_size) + i * threads + threadIdx.x;
    }
    // The token of the tile that row i of v of this thread belongs to.
    __device__ static __forceinline__ int token_of_row(int i) {
        return threadIdx.x / L::v_fours + i * (threads / L::v_fours);
    }
    // Tile number `tile`, of `left` tokens from `start`.
    template <bool quads>
    __device__ __forceinline__ void fetch_ranks(int tile, int64_t start, int left) const {
        constexpr int row = L::ranks / 4, step = threads / row;  // fours of a row; rows that all threads copy at once
        const int t0 = threadIdx.x / row, at = threadIdx.x % row * 4;
        const E *k_row = K + (start + t0) * a.k_stride[2],
                *q_row = outputs ? Q + (start + t0) * a.q_stride[2] : nullptr;
        float* place = shared + L::kq + tile % L::tiles * L::kq_size + 4 * threadIdx.x;
#pragma unroll
        for (int i = 0; i < L::rows; ++i) {
            const bool inside = t0 + i * step < left;
            const int there = inside ? a.r - at : 0;
            copy<quads>(L::direct ? static_cast<void*>(place) : raw(tile, i), inside ? k_row : K, at, there);
            if constexpr (outputs)
                copy<quads>(L::direct ? static_cast<void*>(place + tokens * L::ranks) : raw(tile, L::rows + i),
                            inside ? q_row : Q, at, there);
            place += 4 * threads, k_row += step * a.k_stride[2];
            if constexpr (outputs) q_row += step * a.q_stride[2];
        }
    }
    __device__ __forceinline__ void fetch_part(int tile, int64_t start, int64_t end) const {
        if (start < end) {
            const int left = static_cast<int>(end - start < tokens ? end - start : tokens);
            const int at = column0 + threadIdx.x % L::v_fours * 4;
            if (a.quads_qk) fetch_ranks<true>(tile, start, left);
            else fetch_ranks<false>(tile, start, left);
#pragma unroll
            for (int i = 0; i < L::v_rows; ++i) {
                const int t = token_of_row(i);
                const E* const v_row = V + (start + (t < left ? t : 0)) * a.v_stride[2];
                const int there = t < left ? a.d - at : 0;
                if (a.quads_v) copy<true>(raw(tile, L::kept + i), v_row, at, there);
                else copy<false>(raw(tile, L::kept + i), v_row, at, there);
            }
        }
        cp_async_commit();
    }
    // Where this thread copies from while tiles are whole and rows can be read in fours: the next tile's k, q and v,
    // and whether its fours of ranks and of columns exist.
    struct Source {
        const E *k, *q, *v;
        bool ranks, values;
    };
    __device__ __forceinline__ Source source(int64_t start) const {
        constexpr int row = L::ranks / 4;
        const int at = threadIdx.x % row * 4, v_at = column0 + threadIdx.x % L::v_fours * 4;
        const int64_t t = start + threadIdx.x / row;
        Source s{nullptr, nullptr, nullptr, at < a.r, v_at < a.d};
        s.k = K + t * a.k_stride[2] + (s.ranks ? at : 0);
        if constexpr (outputs) s.q = Q + t * a.q_stride[2] + (s.ranks ? at : 0);
        s.v = V + (start + token_of_row(0)) * a.v_stride[2] + (s.values ? v_at : 0);
        return s;
    }
    __device__ __forceinline__ void fetch_whole(int tile, Source& s) const {
        constexpr int step = threads / (L::ranks / 4), size = 4 * sizeof(E);
        float* const place = shared + L::kq + tile % L::tiles * L::kq_size + 4 * threadIdx.x;
#pragma unroll
        for (int i = 0; i < L::rows; ++i) {
            cp_async<size>(L::direct ? static_cast<void*>(place + i * 4 * threads) : raw(tile, i), s.k, s.ranks);
            s.k += step * a.k_stride[2];
            if constexpr (outputs) {
                cp_async<size>(L::direct ? static_cast<void*>(place + i * 4 * threads + tokens * L::ranks)
                                         : raw(tile, L::rows + i),
                               s.q, s.ranks);
                s.q += step * a.q_stride[2];
            }
        }
#pragma unroll
        for (int i = 0; i < L::v_rows; ++i) {
            cp_async<size>(raw(tile, L::kept + i), s.v, s.values);
            s.v += threads / L::v_fours * a.v_stride[2];
        }
        cp_async_commit();
    }

    // What this thread copied of a tile, the first of `left` tokens, to where it is used; v times γ^(n-1-j) where
    // `scaled`, n the tokens of the tile (`whole_weight`: of this thread's tokens in a whole tile).
    template <bool scaled>
    __device__ __forceinline__ void convert(int tile, int left, const float (&whole_weight)[L::v_rows]) const {
        if constexpr (!L::direct) {
            const auto put = [&](int i, float* to) {
                const Four<E> f = *raw(tile, i);
                *reinterpret_cast<float4*>(to) = make_float4(static_cast<float>(f.x[0]), static_cast<float>(f.x[1]),
                                                             static_cast<float>(f.x[2]), static_cast<float>(f.x[3]));
            };
#pragma unroll
            for (int i = 0; i < L::rows; ++i) {
                float* const place = shared + L::kq + tile % L::tiles * L::kq_size + 4 * (threadIdx.x + i * threads);
                put(i, place);
                if constexpr (outputs) put(L::rows + i, place + tokens * L::ranks);
            }
        }
        const int slot = threadIdx.x % L::v_fours;
#pragma unroll
        for (int i = 0; i < L::v_rows; ++i) {
            const int t = token_of_row(i);
            float weight = whole_weight[i];
            if (scaled && left < tokens) weight = shared[L::powers + (t < left ? left - 1 - t : 0)];
            const Four<E> f = *raw(tile, L::kept + i);
            float x[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) x[j] = weight * static_cast<float>(f.x[j]);
            float* const to = shared + L::v + tile % 2 * L::v_size + t * 4 * width;
#pragma unroll
            for (int p = 0; p < 4; ++p)
                *reinterpret_cast<float4*>(to + p * width + L::place(slot, p) * 4) =
                    make_float4(x[p], x[1 ^ p], x[2 ^ p], x[3 ^ p]);
        }
    }

    // Operands of a token from shared memory.
    template <int n>
    __device__ static __forceinline__ void read(float* x, const float* from) {
        if constexpr (n == 4) {
            const float4 y = *reinterpret_cast<const float4*>(from);
            x[0] = y.x, x[1] = y.y, x[2] = y.z, x[3] = y.w;
        } else if constexpr (n == 2) {
            const float2 y = *reinterpret_cast<const float2*>(from);
            x[0] = y.x, x[1] = y.y;
        } else {
            x[0] = *from;
        }
    }
    __device__ __forceinline__ void read_values(float (&x)[4], const float* v) const {
        read<4>(x, v + (group & 3) * width + L::place(c4, group & 3) * 4);
    }
    // Ranks of vector i of this thread.
    __device__ __forceinline__ void read_ranks(float* x, const float* row, int i) const {
        read<L::vector>(x, row + (i * G + group) * L::vector);
    }

    __device__ __forceinline__ void clear_state() {
#pragma unroll
        for (int e = 0; e < R; ++e) {
#pragma unroll
            for (int j = 0; j < 4; ++j) c[e][j] = 0.0f;
        }
    }
    __device__ __forceinline__ void scale_state(float factor) {
#pragma unroll
        for (int e = 0; e < R; ++e) {
#pragma unroll
            for (int j = 0; j < 4; ++j) c[e][j] *= factor;
        }
    }

    // Sums over the columns' lanes of 4 registers: leaves column `column_of(0)`, summed over the lower two bits of the
    // group.
    __device__ static __forceinline__ float over_columns(const float (&o)[4]) {
        const float x = o[0] + __shfl_xor_sync(~0u, o[2], 2 * L::lanes),
                    y = o[1] + __shfl_xor_sync(~0u, o[3], 2 * L::lanes);
        return x + __shfl_xor_sync(~0u, y, L::lanes);
    }
    // Tokens that are done together, and how many of them have outputs whose sums end in one lane.
    static constexpr int together = 4, ends = together / (G / 4);
    // Their outputs, still to be summed over the ranks; of those that end in this lane how they are weighted and
    // whether they exist. The first goes to `to`, the next a token further.
    struct Waiting {
        float o[together][4];
        E* to;
        float weight[ends];
        bool there[ends];
    };
    // The first token among them whose output ends in this lane, its column being column_of(0).
    __device__ __forceinline__ int token_of() const { return lane / (4 * L::lanes) * ends; }
    template <bool scaled>
    __device__ __forceinline__ void put(const Waiting& w) const {
        float s[together];
#pragma unroll
        for (int i = 0; i < together; ++i) s[i] = over_columns(w.o[i]);
            // Over the other bits of the group, each of which halves the tokens of a lane.
#pragma unroll
        for (int half = together / 2, bit = 16; half >= ends; half /= 2, bit /= 2) {
            const bool upper = lane & bit;
#pragma unroll
            for (int i = 0; i < half; ++i) {
                const float other = __shfl_xor_sync(~0u, upper ? s[i] : s[i + half], bit);
                s[i] = (upper ? s[i + half] : s[i]) + other;
            }
        }
#pragma unroll
        for (int i = 0; i < ends; ++i) {
            if (scaled) s[i] *= w.weight[i];
            if (w.there[i]) w.to[i * a.o_stride[2]] = static_cast<E>(s[i]);
        }
    }

    // Adds a term of an output; the first sets it.
    __device__ static __forceinline__ void add(float& o, float q, float x, bool first) {
        o = first ? q * x : fmaf(q, x, o);
    }

    // Tokens of a tile that are done together, whose operands lie at k_row and v_row.
    template <bool scaled>
    __device__ __forceinline__ void some_tokens(float (&o)[together][4], Factor& factor, bool decays,
                                                const float* k_row, const float* v_row, int left) {
        const float* const q_row = k_row + tokens * L::ranks;
        float decay[together];
#pragma unroll
        for (int t = 0; t < together; ++t) decay[t] = !scaled && decays && t < left ? factor.next() : 1.0f;
        if constexpr (order == Order::fleet) {
            float v[together][4];
#pragma unroll
            for (int t = 0; t < together; ++t) read_values(v[t], v_row + t * 4 * width);
#pragma unroll
            for (int i = 0; i < L::vectors; ++i) {  // 4 G ranks at a time
#pragma unroll
                for (int t = 0; t < together; ++t) {
                    float k[L::vector], q[L::vector];
                    read_ranks(k, k_row + t * L::ranks, i);
                    read_ranks(q, q_row + t * L::ranks, i);
#pragma unroll
                    for (int e = 0; e < L::vector; ++e) {
#pragma unroll
                        for (int j = 0; j < 4; ++j) {
                            float& x = c[i * L::vector + e][j];
                            if (!scaled) x *= decay[t];
                            x = fmaf(k[e], v[t][j], x);
                            add(o[t][j], q[e], x, i == 0 && e == 0);
                        }
                    }
                }
            }
        } else {
#pragma unroll
            for (int t = 0; t < together; ++t) {
                float k[R], q[R], v[4];
#pragma unroll
                for (int i = 0; i < L::vectors; ++i) {
                    read_ranks(k + i * L::vector, k_row + t * L::ranks, i);
                    if constexpr (outputs) read_ranks(q + i * L::vector, q_row + t * L::ranks, i);
                }
                read_values(v, v_row + t * 4 * width);
                if (!scaled && decays) scale_state(decay[t]);
#pragma unroll
                for (int e = 0; e < R; ++e) {
#pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        c[e][j] = fmaf(k[e], v[j], c[e][j]);
                        if constexpr (order == Order::causal_dot_product) add(o[t][j], q[e], c[e][j], e == 0);
                    }
                }
                if constexpr (order == Order::row_based) {
#pragma unroll
                    for (int e = 0; e < R; ++e) {
#pragma unroll
                        for (int j = 0; j < 4; ++j) add(o[t][j], q[e], c[e][j], e == 0);
                    }
                }
            }
        }
    }

    // Through the tokens [from, to).
    template <bool scaled>
    __device__ void sweep(int64_t from, int64_t to) {
        if (threadIdx.x < tokens) {
            const double x = exp2(log2_gamma * static_cast<int>(threadIdx.x));
            shared[L::powers + threadIdx.x] = scaled ? static_cast<float>(x) : 1.0f;
            shared[L::powers + tokens + threadIdx.x] = scaled ? static_cast<float>(1 / x) : 1.0f;
        }
        __syncthreads();
        const bool decays = log2_gamma < 0, whole_fours = a.quads_qk && a.quads_v;
        Factor factor(exp2(log2_gamma * (scaled ? tokens : 1)), 0);
        int left = static_cast<int>(to - from);  // tokens from `start` on
        float whole_weight[L::v_rows];
#pragma unroll
        for (int i = 0; i < L::v_rows; ++i) whole_weight[i] = shared[L::powers + tokens - 1 - token_of_row(i)];
#pragma unroll 1
        for (int i = 0; i < L::ahead; ++i) fetch_part(i, from + i * tokens, to);
        Source next = source(from + L::ahead * tokens);
        cp_async_wait<L::ahead - 1>();
        convert<scaled>(0, left, whole_weight);
        __syncthreads();
        E* row = O + (from + token_of()) * a.o_stride[2] + column_of(0);
        const int64_t further = together * a.o_stride[2];
        const bool column_there = column_of(0) < a.d;
        Waiting first, second;
#pragma unroll
        for (int i = 0; i < ends; ++i) second.there[i] = false, second.weight[i] = 1;
#pragma unroll
        for (int i = 0; i < 4 * together; ++i) second.o[i / 4][i % 4] = 0;
        second.to = row;
        int tile = 0;
        for (int64_t start = from; left > 0; start += tokens, left -= tokens, ++tile) {
            const float* k = shared + L::kq + tile % L::tiles * L::kq_size;
            const float* v = shared + L::v + tile % 2 * L::v_size;
            const int n = left < tokens ? left : tokens;
            cp_async_wait<L::ahead - 2>();
            convert<scaled>(tile + 1, left - tokens, whole_weight);
            if (whole_fours && left >= (L::ahead + 1) * tokens) fetch_whole(tile + L::ahead, next);
            else fetch_part(tile + L::ahead, start + L::ahead * tokens, to);
            if (scaled && decays) scale_state(n == tokens ? factor.next() : static_cast<float>(exp2(log2_gamma * n)));
            const float* weight = shared + L::powers + tokens + n - 1 - token_of();
#pragma unroll 1
            for (int some = n; some > n - tokens; some -= 2 * together) {
                const auto wait = [&](Waiting& w, int more) {
                    w.to = row;
#pragma unroll
                    for (int i = 0; i < ends; ++i) {
                        w.there[i] = token_of() + i < some - more && column_there;
                        w.weight[i] = scaled && w.there[i] ? weight[-more - i] : 1.0f;
                    }
                    row += further;
                };
                some_tokens<scaled>(first.o, factor, decays, k, v, some);
                if constexpr (outputs) {
                    put<scaled>(second);
                    wait(first, 0);
                }
                some_tokens<scaled>(second.o, factor, decays, k + together * L::ranks, v + together * 4 * width,
                                    some - together);
                if constexpr (outputs) {
                    put<scaled>(first);
                    wait(second, together);
                }
                k += 2 * together * L::ranks, v += 2 * together * 4 * width, weight -= 2 * together;
            }
            __syncthreads();
        }
        if constexpr (outputs) put<scaled>(second);
    }
};

// Which columns of which head a block works on, and which segment or piece of its tokens, of n.
struct Place {
    int64_t column_block, i, h, b;
    __device__ int64_t batch_head(const Args& a) const { return b * a.all_heads + a.first_head + h; }
};
__device__ __forceinline__ Place place(const Args& a, int64_t n) {
    int64_t x = blockIdx.x;
    const auto part = [&](int64_t of) {
        const int64_t i = x % of;
        x /= of;
        return i;
    };
    Place p{};
    p.column_block = part(a.column_blocks), p.i = part(n), p.h = part(a.heads), p.b = x;
    return p;
}

// Tokens of piece i without those whose weight at the end of its segment is below 2^-unseen_bits.
struct Tokens {
    int64_t from, to;
    bool cut;  // there are such tokens, and what is before the piece is as light
};
__device__ __forceinline__ Tokens seen_of_piece(const Args& a, double log2_gamma, int64_t i) {
    Tokens seen{i * a.piece, (i + 1) * a.piece, false};
    const int64_t end = (i / a.pieces + 1) * a.pieces * a.piece;
    if (log2_gamma * static_cast<double>(end - seen.from) < -unseen_bits) {
        const int64_t first = end - static_cast<int64_t>(ceil(-unseen_bits / log2_gamma));
        seen.from = first < seen.to ? first : seen.to, seen.cut = true;
    }
    return seen;
}

template <class E, int R, int G, Order order>
__global__ __launch_bounds__(threads, 2) void causal_tile(const __grid_constant__ Args a) {
    extern __shared__ float shared[];
    // The state kernel has a block for each piece of all segments but the last.
    const Place at = place(a, order == Order::state ? a.carried_pieces() : a.segments);
    Engine<E, R, G, order> engine(a, shared, at.b, at.h, static_cast<int>(at.column_block) * Layout<E, R, G>::width);
    const int64_t size = int64_t{a.r} * a.d, length = a.piece * a.pieces;
    float* const state = a.state ? a.state + at.batch_head(a) * size : nullptr;
    float* const carried = a.carried ? a.carried + at.batch_head(a) * (1 + a.carried_pieces()) * size : nullptr;
    Tokens tokens{at.i * length, at.i * length + length < a.N ? at.i * length + length : a.N, false};
    if constexpr (order == Order::state) {
        if (at.i == 0 && state) engine.load_state(state);
        if (at.i == 0) engine.store_state(carried);
        tokens = seen_of_piece(a, engine.log2_gamma, at.i);
        if (tokens.cut) engine.clear_state();
    } else if (carried) {
        engine.load_state(carried + at.i * a.pieces * size);
    } else if (state) {
        engine.load_state(state);
    }
    if (order != Order::row_based && engine.log2_gamma >= direct_below)
        engine.template sweep<true>(tokens.from, tokens.to);
    else engine.template sweep<false>(tokens.from, tokens.to);
    if constexpr (order == Order::state) engine.store_state(carried + (at.i + 1) * size);
    else if (state && at.i + 1 == a.segments) engine.store_state(state);
}

// Kernel for the element type and the number of ranks.
template <Order order>
void run_order(const char* name, const CausalArgs& c, const Args& x, bool wide, std::int64_t blocks,
               cudaStream_t stream) {
    visit(c.type, [&](auto zero) {
        using E = decltype(zero);
        const auto with = [&]<int R, int G>(std::integral_constant<int, R>, std::integral_constant<int, G>) {
            constexpr std::size_t shared = sizeof(float) * Layout<E, R, G>::floats;
            if (shared > shared_memory())
                fail(name, ": r is ", c.r, ", which takes ", shared, " bytes of shared memory, this device has ",
                     shared_memory());
            launch(causal_tile<E, R, G, order>, name, dim3(static_cast<unsigned>(blocks)), threads, shared, 1, false,
                   stream, x);
        };
        constexpr std::integral_constant<int, 16> all;
        if constexpr (order != Order::row_based) {
            if (wide) return with(std::integral_constant<int, 16>{}, std::integral_constant<int, 8>{});
        }
        if (c.r <= 32) with(std::integral_constant<int, 2>{}, all);
        else if (c.r <= 64) with(std::integral_constant<int, 4>{}, all);
        else if (c.r <= 128) with(std::integral_constant<int, 8>{}, all);
        else with(std::integral_constant<int, 16>{}, all);
    });
}

// The launches of a method, of at most max_heads heads and 2^30 blocks each.
template <Order order>
void run(const char* name, const CausalArgs& c, const Cut& cut, cudaStream_t stream) {
    check_causal(name, c);
    if (empty(c)) return;
    check_workspace(name, c, workspace(c, cut));
    const auto set = [](std::int64_t(&to)[3], Strides s) { to[0] = s.batch, to[1] = s.head, to[2] = s.token; };
    const auto quads = [&](const void* p, Strides s, int columns) { return lies_in_fours(p, c.type, s, columns); };
    Args x{};
    x.q = c.q, x.k = c.k, x.v = c.v, x.o = c.o;
    set(x.q_stride, c.q_stride), set(x.k_stride, c.k_stride), set(x.v_stride, c.v_stride), set(x.o_stride, c.o_stride);
    x.N = c.N, x.r = c.r, x.d = c.d, x.all_heads = static_cast<std::int32_t>(c.H);
    x.piece = cut.piece, x.pieces = cut.pieces, x.segments = cut.segments;
    const int width = width_of(cut.wide ? 8 : 16);
    x.column_blocks = (c.d + width - 1) / width;
    x.quads_qk = quads(c.q, c.q_stride, c.r) && quads(c.k, c.k_stride, c.r), x.quads_v = quads(c.v, c.v_stride, c.d);
    x.state = c.state;
    x.carried = x.segments > 1 ? static_cast<float*>(c.workspace.data) : nullptr;
    for (std::int64_t first = 0; first < c.H; first += max_heads) {
        x.first_head = static_cast<std::int32_t>(first);
        x.heads = static_cast<std::int32_t>(std::min<std::int64_t>(max_heads, c.H - first));
        for (int h = 0; h < x.heads; ++h) x.log2_gamma[h] = std::log2(c.decay_of(first + h));
        const std::int64_t blocks = c.B * x.heads * x.column_blocks;
        if (c.N > (std::int64_t{1} << 31) - 256) fail(name, ": ", c.N, " tokens, expected fewer than 2^31");
        if (blocks * x.segments * x.pieces > (std::int64_t{1} << 31) - 1)
            fail(name, ": ", c.B, " batches of ", c.H, " heads are too many");
        if (x.segments > 1) run_states(c, x, cut.wide, stream);
        run_order<order>(name, c, x, cut.wide, blocks * x.segments, stream);
    }
}

}  // namespace causeway::gpu::tile
