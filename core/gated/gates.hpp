// What the gates of one chunk multiply, in the fast forms: only running products of the gates, so that an exact 0 stays
// one, and nothing overflows where they are in [0, 1]; the general rule passes any numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "core/base/interrupt.hpp"
#include "core/gated/problem.hpp"
#include "core/kit/exp.hpp"
#include "core/kit/panels.hpp"
#include "core/kit/rows.hpp"

namespace causeway::gated {

// While alive, and if it is on, results of this thread below the smallest normal number are 0: products of strong gates
// would else end in denormal numbers, on each of which a multiply-add takes some 100 cycles (gates of e^-0.5, chunks of
// 256 tokens: four times the time). Inputs keep their meaning. For processors where this costs nothing it does nothing.
class FlushUnderflow {
public:
    FlushUnderflow(const FlushUnderflow&) = delete;
    FlushUnderflow& operator=(const FlushUnderflow&) = delete;
#if defined(__SSE2__)
    explicit FlushUnderflow(bool on) : before_(_mm_getcsr()) { _mm_setcsr(on ? before_ | _MM_FLUSH_ZERO_ON : before_); }
    ~FlushUnderflow() { _mm_setcsr(before_); }

private:
    unsigned before_;
#else
    explicit FlushUnderflow(bool) {}
    ~FlushUnderflow() {}
#endif
};

// x times the factor f of a gate: 0 where that is 0, whatever x is (an overflowed score too).
template <class T>
inline simd::Vector<T> gated_product(simd::Vector<T> x, simd::Vector<T> f) {
    return f == simd::Vector<T>{} ? f : x * f;
}

// a_i = e^{g_i}, down to denormal numbers; its bits depend on g_i alone, not on n.
template <class T>
inline void exponentials(const T* g, Index n, T* a) {
    constexpr T low = sizeof(T) == 4 ? T(-80) : T(-700);  // below, the vectors do not go down to denormal numbers
    bool lower = false;
    for (Index i = 0; i < n; i += simd::lanes<T>) {
        simd::store_part(a + i, simd::exp<T>(simd::load_part(g + i, n - i)), n - i);
        for (Index j = i; j < std::min(i + simd::lanes<T>, n); ++j) lower |= g[j] < low;
    }
    if (!lower) return;
    for (Index i = 0; i < n; ++i)
        if (g[i] < low) a[i] = std::exp(g[i]);
}

// From the gates a [n] of one head in a chunk:
//   Λ_tj = Π_{s=j+1..t} a_s for j <= t, rows `row_length` apart; right of the diagonal zeros
//   e_t = Π_{s<=t} a_s
template <class T>
void scalar_gates(const T* a, Index n, T* e, T* lambda, Index row_length) {
    std::fill_n(lambda, n * row_length, T(0));
    for (Index t = 0; t < n; ++t) {
        e[t] = t == 0 ? a[0] : e[t - 1] * a[t];
        T* row = lambda + t * row_length;
        if (t > 0) multiply_row(row, row - row_length, a[t], t);
        row[t] = T(1);
    }
}

// A gate per key channel, all [n, dk]: e_t = Π_{s<=t} a_s, w_t = Π_{s>t} a_s.
template <class T>
void channel_gates(const T* a, Index n, Index dk, T* e, T* w) {
    std::copy_n(a, dk, e);
    for (Index t = 1; t < n; ++t) multiply_row(e + t * dk, e + (t - 1) * dk, a + t * dk, dk);
    std::fill_n(w + (n - 1) * dk, dk, T(1));
    for (Index t = n - 1; t > 0; --t) multiply_row(w + (t - 1) * dk, w + t * dk, a + t * dk, dk);
}

// With a gate per channel the decay between two tokens stands inside their inner product. It is split at a token
// between them, on which both factors are products of gates: for pairs of neighbouring blocks of m, 2m, 4m, ... tokens,
//   Σ_c q_tc k_jc Π_{s=j+1..t} a_sc = <q_t ⊙ f_t, k_j ⊙ f_j>,   f_t = Π_{ref<s<=t} a_s,   f_j = Π_{j<s<=ref} a_s,
// where j is in the first block of the pair, t in the second, and ref the last token of the first. Every pair j < t
// that is not in one block of m tokens meets exactly once. f(first, size of a block, end) for all of them, neighbours
// soon after one another.
template <class F>
void each_pair_of_blocks(Index n, Index m, F&& f) {
    constexpr Index together = 16;  // tokens whose rows stay in the first-level cache
    const auto pairs = [&](Index size, Index from, Index to) {
        for (Index first = from; first + size < to; first += 2 * size) f(first, size, std::min(to, first + 2 * size));
    };
    for (Index from = 0; from < n; from += together)
        for (Index size = m; size < together; size *= 2) pairs(size, from, std::min(n, from + together));
    for (Index size = std::max(m, together); size < n; size *= 2) pairs(size, 0, n);
}

// f of the tokens [0, end) of a pair whose second block begins at m; a [end, dk] their gates.
template <class T>
void split_factors(const T* a, Index m, Index end, Index dk, T* f) {
    std::fill_n(f + (m - 1) * dk, dk, T(1));
    for (Index j = m - 1; j > 0; --j) multiply_row(f + (j - 1) * dk, f + j * dk, a + j * dk, dk);
    std::copy_n(a + m * dk, dk, f + m * dk);
    for (Index t = m + 1; t < end; ++t) multiply_row(f + t * dk, f + (t - 1) * dk, a + t * dk, dk);
}

// S_ij = <x_i, y_j> for `rows` rows of x and `columns` of y, all of dk numbers and contiguous; four by four at a time,
// the sums of 16 products across lanes together (simd::sums).
template <class T>
void inner_products(const T* x, Index rows, const T* y, Index columns, Index dk, T* S, Index row_length) {
    constexpr Index L = simd::lanes<T>, side = 4;
    for (Index i = 0; i < rows; i += side) {
        for (Index j = 0; j < columns; j += side) {
            const T *px[side], *py[side];
            for (Index k = 0; k < side; ++k) {
                px[k] = x + std::min(i + k, rows - 1) * dk;
                py[k] = y + std::min(j + k, columns - 1) * dk;
            }
            simd::Vector<T> sums[side * side] = {};
            const auto step = [&](auto&& load, Index e) __attribute__((always_inline)) {
                simd::Vector<T> yv[side];
                for (Index k = 0; k < side; ++k) yv[k] = load(py[k] + e);
#pragma GCC unroll 4
                for (Index k = 0; k < side; ++k) {
                    const simd::Vector<T> xv = load(px[k] + e);
#pragma GCC unroll 4
                    for (Index l = 0; l < side; ++l) sums[k * side + l] += xv * yv[l];
                }
            };
            Index e = 0;
            for (; e + L <= dk; e += L) step([](const T* p) { return simd::load(p); }, e);
            if (e < dk) step([&](const T* p) { return simd::load_part(p, dk - e); }, e);
            T values[side * side];
            for (Index first = 0; first < side * side; first += L) {
                simd::Vector<T> part[L];
                for (Index k = 0; k < L; ++k) part[k] = sums[std::min<Index>(first + k, side * side - 1)];
                const simd::Vector<T> total = simd::sums<T>(part);
                for (Index k = 0; k < std::min(L, side * side); ++k) values[first + k] = total[k];
            }
            for (Index k = 0; k < std::min(side, rows - i); ++k)
                for (Index l = 0; l < std::min(side, columns - j); ++l)
                    S[(i + k) * row_length + j + l] = values[k * side + l];
        }
    }
}

// The same for the pairs j <= t of four tokens (or the n < 4 left) and with their decay: S_tj = Σ_c x_tc y_jc
// Π_{s=j+1..t} a_sc.
template <class T>
void decayed_products_of_four(const T* x, const T* y, const T* a, Index n, Index dk, T* S, Index row_length) {
    using Vec = simd::Vector<T>;
    constexpr Index L = simd::lanes<T>, side = 4, count = side * (side + 1) / 2;
    Vec totals[(count + L - 1) / L * L] = {};
    const auto step = [&](auto&& load, Index e) __attribute__((always_inline)) {
        Vec keys[side];
        int at = 0;
#pragma GCC unroll 4
        for (Index t = 0; t < side; ++t) {
            const Index row = std::min(t, n - 1) * dk + e;
            const Vec xv = load(x + row), gate = load(a + row);
#pragma GCC unroll 4
            for (Index j = 0; j < t; ++j) {
                keys[j] *= gate;
                totals[at++] += xv * keys[j];
            }
            keys[t] = load(y + row);
            totals[at++] += xv * keys[t];
        }
    };
    Index e = 0;
    for (; e + L <= dk; e += L) step([](const T* p) { return simd::load(p); }, e);
    if (e < dk) step([&](const T* p) { return simd::load_part(p, dk - e); }, e);
    T values[std::size(totals)];
    for (Index first = 0; first < static_cast<Index>(std::size(totals)); first += L)
        simd::store(values + first, simd::sums<T>(totals + first));
    for (Index t = 0, at = 0; t < n; ++t)
        for (Index j = 0; j <= t; ++j) S[t * row_length + j] = values[at++];
}

// Scores of one chunk with a gate per channel: A = Λ ⊙ Q Kᵀ with the diagonal for each of `group` queries, `square`
// apart, and M = Λ ⊙ K Kᵀ unless it is null, of which the diagonal is not to be read. Rows of K and query(i) have dk
// numbers, those of A and M row_length; f, keys and rows are scratch [n, dk].
template <class T, class Query>
void channel_scores(const T* K, Index group, Query&& query, const T* a, Index n, Index dk, T* A, Index square, T* M,
                    Index row_length, T* f, T* keys, T* rows) {
    constexpr Index side = 4;
    for (Index i = 0; i < n; i += side) {
        const Index count = std::min(side, n - i), diagonal = i * row_length + i;
        const auto products = [&](const T* X, T* into) {
            decayed_products_of_four(X + i * dk, K + i * dk, a + i * dk, count, dk, into + diagonal, row_length);
        };
        if (M) products(K, M);
        for (Index q = 0; q < group; ++q) products(query(q), A + q * square);
    }
    each_pair_of_blocks(n, side, [&](Index first, Index m, Index end) {
        interrupt::check();
        const Index second = first + m, count = end - second, block = second * row_length + first;
        split_factors(a + first * dk, m, end - first, dk, f);
        multiply_row(keys, K + first * dk, f, m * dk);
        const auto products = [&](const T* X, T* into) {
            multiply_row(rows, X + second * dk, f + m * dk, count * dk);
            inner_products(rows, count, keys, m, dk, into + block, row_length);
        };
        if (M) products(K, M);
        for (Index q = 0; q < group; ++q) products(query(q), A + q * square);
    });
}

}  // namespace causeway::gated
