// What the gates of one chunk multiply, in the fast forms: only running products of numbers in [0, 1], so nothing overflows
// and an exact 0 stays one. Products below `negligible` are 0, or what they multiply would be denormal, on which every
// multiply-add takes some 100 cycles (gates of e^-0.5, chunks of 256 tokens: four times the time).
#pragma once

#include <Eigen/Core>
#include <cmath>
#include <iterator>
#include <limits>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "core/exact/panels.hpp"

namespace causeway::gated {

// 1e-31 (Float64: 1e-292): a unit roundoff above the smallest normal number.
template <class T> inline constexpr T negligible = std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon();

template <class T>
inline simd::Vector<T> flushed(simd::Vector<T> x) {
    const simd::Vector<T> least = simd::Vector<T>{} + negligible<T>;
    return x < least ? simd::Vector<T>{} : x;
}

template <class T>
inline T flushed(T x) { return x < negligible<T> ? T(0) : x; }

// While alive, results of this thread that would be denormal are 0. For inner products of rows that gates have made small:
// what they add is below `negligible`, while each denormal sum would cost some 100 cycles. Inputs keep their meaning.
class FlushUnderflow {
#if defined(__SSE2__)
public:
    FlushUnderflow() : before_(_mm_getcsr()) { _mm_setcsr(before_ | _MM_FLUSH_ZERO_ON); }
    ~FlushUnderflow() { _mm_setcsr(before_); }
    FlushUnderflow(const FlushUnderflow&) = delete;
    FlushUnderflow& operator=(const FlushUnderflow&) = delete;

private:
    unsigned before_;
#else
public:
    FlushUnderflow() {}
    ~FlushUnderflow() {}
#endif
};

// a_i = e^{g_i}, 0 where that is below the smallest normal number.
template <class T>
inline void exponentials(const T* g, Index n, T* a) {
    static const T least = std::log(std::numeric_limits<T>::min());
    Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>> out(a, n);
    const Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>> in(g, n);
    out = (in > least).select(in.max(least).exp(), T(0));
}

// into = x * y (into may be either).
template <class T>
inline void multiply_row(T* into, const T* x, const T* y, Index n) {
    constexpr Index L = simd::lanes<T>;
    Index i = 0;
    for (; i + L <= n; i += L) simd::store(into + i, simd::load(x + i) * simd::load(y + i));
    for (; i < n; ++i) into[i] = x[i] * y[i];
}

template <class T>
inline void multiply_row(T* into, const T* x, T y, Index n) {
    constexpr Index L = simd::lanes<T>;
    Index i = 0;
    for (; i + L <= n; i += L) simd::store(into + i, simd::load(x + i) * y);
    for (; i < n; ++i) into[i] = x[i] * y;
}

// into = flushed(x * y): the step of a running product of gates.
template <class T>
inline void decay_row(T* into, const T* x, const T* y, Index n) {
    constexpr Index L = simd::lanes<T>;
    Index i = 0;
    for (; i + L <= n; i += L) simd::store(into + i, flushed<T>(simd::load(x + i) * simd::load(y + i)));
    for (; i < n; ++i) into[i] = flushed(x[i] * y[i]);
}

template <class T>
inline void decay_row(T* into, const T* x, T y, Index n) {
    constexpr Index L = simd::lanes<T>;
    Index i = 0;
    for (; i + L <= n; i += L) simd::store(into + i, flushed<T>(simd::load(x + i) * y));
    for (; i < n; ++i) into[i] = flushed(x[i] * y);
}

// The gates of one head in a chunk of n tokens, one a token:
//   Λ_tj = Π_{s=j+1..t} a_s for j <= t, rows `row_length` apart; right of the diagonal zeros
//   e_t = Π_{s<=t} a_s, and carry = e_last down to the smallest normal number: what is left of the state
template <class T>
void scalar_gates(const T* g, Index n, T* a, T* e, T* lambda, Index row_length, T* carry) {
    exponentials(g, n, a);
    std::fill_n(lambda, n * row_length, T(0));
    *carry = T(1);
    for (Index t = 0; t < n; ++t) {
        e[t] = flushed(t == 0 ? a[0] : e[t - 1] * a[t]);
        *carry *= a[t];
        if (*carry < std::numeric_limits<T>::min()) *carry = T(0);
        T* row = lambda + t * row_length;
        if (t > 0) decay_row(row, row - row_length, a[t], t);
        row[t] = T(1);
    }
}

// A gate per key channel: a, e and w [n, dk], carry [dk]; e_t = Π_{s<=t} a_s, w_t = Π_{s>t} a_s.
template <class T>
void channel_gates(const T* g, Index n, Index dk, T* a, T* e, T* w, T* carry) {
    exponentials(g, n * dk, a);
    std::copy_n(a, dk, carry);
    for (Index c = 0; c < dk; ++c) e[c] = flushed(a[c]);
    for (Index t = 1; t < n; ++t) {
        decay_row(e + t * dk, e + (t - 1) * dk, a + t * dk, dk);
        multiply_row(carry, carry, a + t * dk, dk);
    }
    for (Index c = 0; c < dk; ++c)
        if (carry[c] < std::numeric_limits<T>::min()) carry[c] = T(0);
    std::fill_n(w + (n - 1) * dk, dk, T(1));
    for (Index t = n - 1; t > 0; --t) decay_row(w + (t - 1) * dk, w + t * dk, a + t * dk, dk);
}

// With a gate per channel the decay between two tokens stands inside their inner product. It is split at a token between
// them, on which both factors are products of gates: for pairs of neighbouring blocks of m, 2m, 4m, ... tokens,
//   Σ_c q_tc k_jc Π_{s=j+1..t} a_sc = <q_t ⊙ f_t, k_j ⊙ f_j>,   f_t = Π_{ref<s<=t} a_s,   f_j = Π_{j<s<=ref} a_s,
// where j is in the first block of the pair, t in the second, and ref the last token of the first. Every pair j < t that is
// not in one block of m tokens meets exactly once. f(first, size of a block, end) for all of them, neighbours soon after one
// another.
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
    for (Index j = m - 1; j > 0; --j) decay_row(f + (j - 1) * dk, f + j * dk, a + j * dk, dk);
    decay_row(f + m * dk, a + m * dk, T(1), dk);
    for (Index t = m + 1; t < end; ++t) decay_row(f + t * dk, f + (t - 1) * dk, a + t * dk, dk);
}

// S_ij = <x_i, y_j> for `rows` rows of x and `columns` of y, all of dk numbers and contiguous; four by four at a time, the
// sums of 16 products across lanes together (simd::sums).
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
                for (Index l = 0; l < std::min(side, columns - j); ++l) S[(i + k) * row_length + j + l] = values[k * side + l];
        }
    }
}

// The same for the pairs j <= t of four tokens (or the n < 4 left) and with their decay: S_tj = Σ_c x_tc y_jc Π_{s=j+1..t} a_sc.
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
    for (Index first = 0; first < static_cast<Index>(std::size(totals)); first += L) simd::store(values + first, simd::sums<T>(totals + first));
    for (Index t = 0, at = 0; t < n; ++t)
        for (Index j = 0; j <= t; ++j) S[t * row_length + j] = values[at++];
}

}  // namespace causeway::gated
