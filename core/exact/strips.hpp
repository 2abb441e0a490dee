// How the methods whose columns of V do not depend on one another spread over heads and columns. Nothing here depends
// on the number of threads but the order in which independent pieces are computed, so results do not either.
#pragma once

#include <algorithm>

#include "core/exact/problem.hpp"
#include "core/kit/simd.hpp"
#include "core/kit/spread.hpp"

namespace causeway::exact {

// Strips of NV vectors of columns, each with its columns of the state. A task is one head, which hands a tile of rows
// to strip after strip while B and C of the tile are in cache (apart, the strips read B and C once each: 23 ms against
// 17 at N = 8192, h = 8, r = d = 128, two threads); with fewer heads than threads it is one strip, so that a single
// head keeps them busy too. Kernel advances a strip through `rows` tokens:
template <class T>
struct Strip {
    const T* B;  // [rows, r]
    const T* C;  // [rows, r]
    const T* V;  // [rows, width of the strip], row stride `stride`
    T* O;        // likewise; to be written
    Index stride;
    T* S;  // [r, width of the strip]: the state before these rows, to be advanced
    Index rows, r;
    T gamma;
};

inline constexpr Index strip_rows = 128;  // of which B and C stay in the second-level cache

// Kernel: template <bool decays> static void run(const Strip<T>&). Rows are handed over `tile` at a time.
template <class T, int NV, class Kernel>
void each_strip(const Problem<T>& p, Index tile = strip_rows) {
    constexpr Index width = NV * simd::lanes<T>;
    const Index strips = (p.d + width - 1) / width;
    const Index together = p.all_heads() >= threads() ? strips : 1;  // strips of a task
    const Index tasks = strips / std::max<Index>(together, 1);
    parallel_for(p.all_heads() * tasks, [&](Index task) {
        const Index first = task % tasks * together;
        const Head<T> h = p.head(task / tasks);
        const bool partial =
            p.d % width != 0;  // the last strip is copied to full vectors; the others are used in place
        Buffer<T> S(together * p.r * width), V(partial ? tile * width : 0), O(partial ? tile * width : 0);
        std::fill_n(S.data(), S.size(), T(0));
        std::fill_n(V.data(), V.size(), T(0));
        const auto each_state_row = [&](auto&& f) {
            for (Index k = 0; k < together; ++k) {
                const Index at = (first + k) * width, cols = std::min(width, p.d - at);
                for (Index e = 0; e < p.r; ++e) f(S.data() + (k * p.r + e) * width, h.S + e * p.d + at, cols);
            }
        };
        if (h.S) each_state_row([](T* mine, const T* theirs, Index cols) { std::copy_n(theirs, cols, mine); });
        for (Index start = 0; start < p.N; start += tile) {
            const Index rows = std::min(tile, p.N - start);
            interrupt::check();
            for (Index k = 0; k < together; ++k) {
                const Index at = (first + k) * width, cols = std::min(width, p.d - at);
                Strip<T> s{h.B.data() + start * p.r,
                           h.C.data() + start * p.r,
                           h.V.data() + start * p.d + at,
                           p.O + (task / tasks * p.N + start) * p.d + at,
                           p.d,
                           S.data() + k * p.r * width,
                           rows,
                           p.r,
                           T(h.gamma)};
                T* const into = s.O;
                if (cols < width) {
                    for (Index i = 0; i < rows; ++i) std::copy_n(s.V + i * p.d, cols, V.data() + i * width);
                    s.V = V.data();
                    s.O = O.data();
                    s.stride = width;
                }
                if (h.decays()) Kernel::template run<true>(s);
                else Kernel::template run<false>(s);
                if (cols < width)
                    for (Index i = 0; i < rows; ++i) std::copy_n(O.data() + i * width, cols, into + i * p.d);
            }
        }
        if (h.S) each_state_row([](const T* mine, T* theirs, Index cols) { std::copy_n(mine, cols, theirs); });
    });
}

}  // namespace causeway::exact
