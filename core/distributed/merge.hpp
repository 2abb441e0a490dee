// What partial softmax sums are combined with. All are associative and commutative over the reals, and each gives the
// same bits whichever operand is `into`, so that all ranks of an all-reduce agree.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/memory.hpp"

namespace causeway::distributed {

template <class T>
inline constexpr T minus_infinity = -std::numeric_limits<T>::infinity();

// (m, D, n): the maximum of scores s_a, D = Σ e^{s_a - m}, n = Σ e^{s_a - m} v_a: an item of d + 2 elements. Neutral
// element
// (-∞, 0, 0), of no keys at all (tree, equation 7; claims H5).
template <class T>
struct MergeTriples {
    Index d;
    Index width() const { return d + 2; }
    // x = `items` neutral elements.
    static void neutral(T* x, Index items, Index d) {
        for (Index i = 0; i < items; ++i, x += d + 2) {
            std::fill_n(x, d + 2, T(0));
            x[0] = minus_infinity<T>;
        }
    }
    void operator()(T* into, const T* from, Index items) const {
        const Index w = d + 2;
        for (Index i = 0; i < items; ++i, into += w, from += w) {
            if (from[0] == minus_infinity<T>) continue;  // -∞ - (-∞) is not a number
            if (into[0] == minus_infinity<T>) {
                std::copy_n(from, w, into);
                continue;
            }
            // The triple of the larger maximum stays as it is, the other is scaled: the same sum in either role.
            if (into[0] >= from[0]) {
                const T s = std::exp(from[0] - into[0]);
                for (Index j = 1; j < w; ++j) into[j] += s * from[j];
            } else {
                const T s = std::exp(into[0] - from[0]);
                for (Index j = 1; j < w; ++j) into[j] = from[j] + s * into[j];
                into[0] = from[0];
            }
        }
    }
};

// Items of one element.
template <class T>
struct Maximum {
    void operator()(T* into, const T* from, Index items) const {
        for (Index i = 0; i < items; ++i) into[i] = std::max(into[i], from[i]);
    }
};

// Items of any width.
template <class T>
struct Sum {
    Index width_ = 1;
    void operator()(T* into, const T* from, Index items) const {
        for (Index i = 0; i < items * width_; ++i) into[i] += from[i];
    }
};

// (l, g): l = ln Σ e^{s_a} and its gradient g with respect to the source ζ, of s_a + ζ·v_a at ζ = 0: the weighted mean
// of v. Dual numbers of d directions through logsumexp. Neutral element (-∞, 0).
template <class T>
struct LogSumExp {
    Index d;  // 0: without a gradient
    void operator()(T* into, const T* from, Index items) const {
        const Index w = d + 1;
        for (Index i = 0; i < items; ++i, into += w, from += w) {
            if (from[0] == minus_infinity<T>) continue;
            if (into[0] == minus_infinity<T>) {
                std::copy_n(from, w, into);
                continue;
            }
            const bool stays = into[0] >= from[0];
            const T large = stays ? into[0] : from[0], small = stays ? from[0] : into[0];
            const T e = std::exp(small - large), share = e / (1 + e),
                    rest = 1 / (1 + e);  // of the smaller, of the larger
            for (Index j = 1; j < w; ++j) {
                const T a = stays ? into[j] : from[j], b = stays ? from[j] : into[j];
                into[j] = rest * a + share * b;
            }
            into[0] = large + std::log1p(e);
        }
    }
};

}  // namespace causeway::distributed
