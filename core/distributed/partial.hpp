// What one worker computes: the triples (m, D, n) of its queries over a piece of the keys and values.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/base/interrupt.hpp"
#include "core/distributed/merge.hpp"
#include "core/kit/online_softmax.hpp"
#include "core/kit/simd.hpp"

namespace causeway::distributed {

// Of the whole call. Queries [batch, query_heads, N, dk], keys [batch, heads, M, dk], values [batch, heads, M, dv];
// consecutive query heads share a head of keys. causal: the queries are the last N of the M positions, query i sees M -
// N + i + 1 keys.
struct Sizes {
    Index batch = 1, query_heads = 1, heads = 1, N = 1, M = 1, dk = 1, dv = 1;
    bool causal = false;
    double scale = 1;

    Index rows() const { return batch * query_heads * N; }
    Index all_heads() const { return batch * heads; }
    Index rows_per_head() const { return heads == 0 ? 0 : query_heads / heads * N; }
    // Of keys [start, start + length), those that query i sees.
    Index seen(Index i, Index start, Index length) const {
        return causal ? std::clamp<Index>(M - N + i + 1 - start, 0, length) : length;
    }
};

// Keys start ... start + length - 1; head h begins at k + h·k_head and v + h·v_head.
template <class T>
struct Shard {
    const T *k = nullptr, *v = nullptr;
    Index k_head = 0, v_head = 0, start = 0, length = 0;
};

// Triples of all rows: those of row i at m[i·step], D[i·step], n[i·n_step ...].
template <class T>
struct Triples {
    T *m, *D, *n;
    Index step, n_step;

    static Triples packed(T* x, Index dv) { return {x, x + 1, x + 2, dv + 2, dv + 2}; }
};

// Keys whose scores are held at a time.
inline constexpr Index keys_per_tile = 64;

// s[j] = scale · q·k_j, j < count <= keys_per_tile.
template <class T>
inline void scores(const T* q, const T* k, Index count, Index d, T scale, T* s) {
    constexpr int L = simd::lanes<T>;
    for (Index j = 0; j < count; j += L) {
        simd::Vector<T> sum[L] = {};
        const T* row[L];
        for (int l = 0; l < L; ++l) row[l] = k + std::min(j + l, count - 1) * d;  // past the end: the last key again
        Index c = 0;
        for (; c + L <= d; c += L) {
            const auto x = simd::load(q + c);
#pragma GCC unroll 16
            for (int l = 0; l < L; ++l) sum[l] += x * simd::load(row[l] + c);
        }
        if (c < d) {
            const auto x = simd::load_part(q + c, d - c);
            for (int l = 0; l < L; ++l) sum[l] += x * simd::load_part(row[l] + c, d - c);
        }
        simd::store_part(s + j, simd::sums<T>(sum) * scale, count - j);
    }
}

// n = shrink · n + Σ_j w[j] v_j.
template <class T>
inline void add_values(T* n, T shrink, const T* w, const T* v, Index count, Index d) {
    constexpr int L = simd::lanes<T>, strip = 8;
    Index c = 0;
    for (; c + strip * L <= d; c += strip * L) {
        simd::Vector<T> sum[strip];
#pragma GCC unroll 8
        for (int i = 0; i < strip; ++i) sum[i] = shrink * simd::load(n + c + i * L);
        for (Index j = 0; j < count; ++j) {
#pragma GCC unroll 8
            for (int i = 0; i < strip; ++i) sum[i] += w[j] * simd::load(v + j * d + c + i * L);
        }
#pragma GCC unroll 8
        for (int i = 0; i < strip; ++i) simd::store(n + c + i * L, sum[i]);
    }
    for (; c < d; c += L) {
        auto sum = shrink * simd::load_part(n + c, d - c);
        for (Index j = 0; j < count; ++j) sum += w[j] * simd::load_part(v + j * d + c, d - c);
        simd::store_part(n + c, sum, d - c);
    }
}

// Calls tile(row, s, v, count) with the scores s[0 ... count-1], which it may overwrite, of every row and tile of keys
// that the row sees, and the values v of those keys. O(rows · length · dk).
template <class T, class F>
void for_each_tile(const Sizes& z, const T* q, const Shard<T>& shard, F&& tile) {
    alignas(64) T s[keys_per_tile];
    for (Index h = 0; h < z.all_heads(); ++h) {
        const T *k = shard.k + h * shard.k_head, *v = shard.v + h * shard.v_head;
        for (Index j = 0; j < shard.length; j += keys_per_tile) {
            for (Index r = 0; r < z.rows_per_head(); ++r) {
                if (r % 64 == 0) interrupt::check();
                const Index count = std::min(keys_per_tile, z.seen(r % z.N, shard.start, shard.length) - j),
                            row = h * z.rows_per_head() + r;
                if (count <= 0) continue;
                scores(q + row * z.dk, k + j * z.dk, count, z.dk, static_cast<T>(z.scale), s);
                tile(row, s, v + j * z.dv, count);
            }
        }
    }
}

// add_shard row by row: for few queries to a head of keys, whose tiles are not worth packing.
template <class T>
void add_shard_by_rows(const Sizes& z, const T* q, const Shard<T>& shard, const Triples<T>& x) {
    for_each_tile(z, q, shard, [&](Index row, T* s, const T* v, Index count) {
        T &m = x.m[row * x.step], &D = x.D[row * x.step];
        T top = m;
        for (Index j = 0; j < count; ++j) top = s[j] > top ? s[j] : top;
        if (top == minus_infinity<T>) top = 0;  // scores that are all -∞ get weight e^{-∞} = 0
        const T shrink = std::exp(m - top);
        T sum = 0;
        for (Index j = 0; j < count; ++j) {
            s[j] = std::exp(s[j] - top);
            sum += s[j];
        }
        D = shrink * D + sum;
        m = D == 0 ? minus_infinity<T> : top;
        add_values(x.n + row * x.n_step, shrink, s, v, count, z.dv);
    });
}

// (m, D, n) of a row <- (m, D, n) + (top, sum, O).
template <class T>
void add_triple(const Triples<T>& x, Index row, Index dv, T top, T sum, const T* O) {
    T &m = x.m[row * x.step], &D = x.D[row * x.step], *n = x.n + row * x.n_step;
    const T before = m;
    m = std::max(m, top);
    const T shift = kit::shift_of(m), old = std::exp(before - shift), fresh = std::exp(top - shift);
    D = old * D + fresh * sum;
    for (Index c = 0; c < dv; ++c) n[c] = old * n[c] + fresh * O[c];
    if (D != D && m == minus_infinity<T>) m = 0;  // no score is a number: not the neutral element
}

// add_shard by blocks of queries, whose partial sums over the shard are those of flash attention.
template <class T>
void add_shard_by_blocks(const Sizes& z, const T* q, const Shard<T>& shard, const Triples<T>& x) {
    kit::AttentionHead<T> head;
    head.rows = z.rows_per_head(), head.N = z.N, head.M = z.M - shard.start, head.d = z.dk, head.dv = z.dv;
    head.causal = z.causal, head.scale = static_cast<T>(z.scale);
    const Index together = std::min(kit::max_softmax_rows, head.rows);
    Buffer<T> O(together * z.dv), m(together), l(together);
    for (Index h = 0; h < z.all_heads() && shard.length > 0; ++h) {
        head.q = q + h * head.rows * z.dk, head.k = shard.k + h * shard.k_head, head.v = shard.v + h * shard.v_head;
        for (Index from = 0; from < head.rows; from += together) {
            const Index to = std::min(head.rows, from + together);
            kit::online_softmax(head, from, to, 0, shard.length, false, O.data(), m.data(), l.data());
            for (Index i = 0; i < to - from; ++i) {
                add_triple(x, h * head.rows + from + i, z.dv, m[i], l[i], O.data() + i * z.dv);
            }
        }
    }
}

// Puts the shard into the triples, by the online softmax: (m, D, n) <- (m, D, n) + Σ_j (s_j, 1, v_j). O(rows·length·(dk
// + dv)).
template <class T>
void add_shard(const Sizes& z, const T* q, const Shard<T>& shard, const Triples<T>& x) {
    if (z.rows_per_head() <= kit::few_softmax_rows) add_shard_by_rows(z, q, shard, x);
    else add_shard_by_blocks(z, q, shard, x);
}

// Makes the triples those of no keys at all: (-∞, 0, 0).
template <class T>
void set_neutral(const Sizes& z, const Triples<T>& x) {
    for (Index i = 0; i < z.rows(); ++i) {
        x.m[i * x.step] = minus_infinity<T>;
        x.D[i * x.step] = 0;
        std::fill_n(x.n + i * x.n_step, z.dv, T(0));
    }
}

// out = n / D, lse = m + ln D where it is wanted (not null).
template <class T>
void divide(const Sizes& z, const Triples<T>& x, T* out, T* lse) {
    for (Index i = 0; i < z.rows(); ++i) {
        for (Index c = 0; c < z.dv; ++c) out[i * z.dv + c] = x.n[i * x.n_step + c] / x.D[i * x.step];
        if (lse) lse[i] = x.m[i * x.step] + std::log(x.D[i * x.step]);
    }
}

}  // namespace causeway::distributed
