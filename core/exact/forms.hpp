// How methods spread over heads, columns and blocks. Nothing here depends on the number of threads but the order in
// which independent pieces are computed, so results do not either.
#pragma once

#include <algorithm>
#include <vector>

#include "core/base/interrupt.hpp"
#include "core/base/parallel.hpp"
#include "core/exact/problem.hpp"
#include "core/kit/simd.hpp"

namespace causeway::exact {

// f(head) for every head.
template <class T, class F>
void each_head(const Problem<T>& p, F&& f) {
    parallel_for(p.all_heads(), [&](Index h) { f(p.head(h)); });
}

// For the methods whose columns of V do not depend on one another: strips of NV vectors of columns, each with its
// columns of the state. A task is one head, which hands a tile of rows to strip after strip while B and C of the tile
// are in cache (apart, the strips read B and C once each: 23 ms against 17 at N = 8192, h = 8, r = d = 128, two
// threads); with fewer heads than threads it is one strip, so that a single head keeps them busy too. Kernel advances a
// strip through `rows` tokens:
template <class T>
struct Strip {
    const T* B;  // [rows, r]
    const T* C;  // [rows, r]
    const T* V;  // [rows, width of the strip], row stride `stride`
    T* O;        // likewise; to be written
    Index stride;
    T* U;  // [r, width of the strip]: the state before these rows, to be advanced
    Index rows, r;
    T gamma;
};

// Kernel: template <bool decays> static void run(const Strip<T>&). Rows are handed over `tile` at a time.
template <class T, int NV, class Kernel>
void each_strip(const Problem<T>& p, Index tile) {
    constexpr Index width = NV * simd::lanes<T>;
    const Index strips = (p.d + width - 1) / width;
    const Index together = p.all_heads() >= threads() ? strips : 1;  // strips of a task
    const Index tasks = strips / std::max<Index>(together, 1);
    parallel_for(p.all_heads() * tasks, [&](Index task) {
        const Index first = task % tasks * together;
        const Head<T> h = p.head(task / tasks);
        const bool partial =
            p.d % width != 0;  // the last strip is copied to full vectors; the others are used in place
        Buffer<T> U(together * p.r * width), V(partial ? tile * width : 0), O(partial ? tile * width : 0);
        std::fill_n(U.data(), U.size(), T(0));
        std::fill_n(V.data(), V.size(), T(0));
        const auto each_state_row = [&](auto&& f) {
            for (Index k = 0; k < together; ++k) {
                const Index at = (first + k) * width, cols = std::min(width, p.d - at);
                for (Index e = 0; e < p.r; ++e) f(U.data() + (k * p.r + e) * width, h.U + e * p.d + at, cols);
            }
        };
        if (h.U) each_state_row([](T* mine, const T* theirs, Index cols) { std::copy_n(theirs, cols, mine); });
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
                           U.data() + k * p.r * width,
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
        if (h.U) each_state_row([](const T* mine, T* theirs, Index cols) { std::copy_n(mine, cols, theirs); });
    });
}

// Elements from ... to - 1 of a state and of what a block adds to it: U ← carry U + D, and D becomes the state before
// the block.
template <class T>
void combine(T* U, T* D, Index from, Index to, T carry) {
    for (Index i = from; i < to; ++i) {
        const T before = U[i];
        U[i] = carry * before + D[i];
        D[i] = before;
    }
}

// For the methods that go through blocks with a carried state. Chunk does the arithmetic of one block:
//   Chunk(p, c)                  scratch for blocks of up to c tokens
//   Index state_size()           scalars of a state as Chunk keeps it
//   void load(h, start, n)       takes the block [start, start + n) of head h
//   void scores()                the masked product of the block
//   void output(const T* U)      O of the block given the state before it; null: an empty one
//   void delta(T* D)             what the block adds to the state
//   void import_state(const T*, T* U), void export_state(const T* U, T*)   from and to the caller's layout
//   T carry()                    γ^n
// Where there are enough heads, each is one task. The remaining heads go in waves of blocks: deltas of all blocks of
// the wave in parallel, one pass that turns them into the states before each block, outputs of all blocks in parallel.
// The arithmetic of a block is the same either way, so the two agree bit for bit. Extra memory: a state and the scratch
// of Chunk for every head in flight, or for every block of a wave.
template <class Chunk, class T>
void each_chunk(const Problem<T>& p, Index c) {
    const Index blocks = (p.N + c - 1) / c;
    const Index heads = p.all_heads(), crew = threads();
    if (blocks == 0) return;
    const Index state_size = Chunk::state_size(p);
    const T* const none = nullptr;
    const Index whole = blocks == 1 || heads >= 4 * crew ? heads : heads / crew * crew;
    const auto state_of = [&](Index h) { return p.state ? p.state + h * p.r * p.state_width() : nullptr; };
    const auto length = [&](Index block) { return std::min(c, p.N - block * c); };

    parallel_for(whole, [&](Index h) {
        Chunk chunk(p, c);
        Buffer<T> U(state_size), D(state_size);
        if (p.state) chunk.import_state(state_of(h), U.data());
        for (Index i = 0; i < blocks; ++i) {
            interrupt::check();
            chunk.load(h, i * c, length(i));
            chunk.scores();
            chunk.output(i > 0 || p.state ? U.data() : none);
            if (i + 1 == blocks && !p.state) return;
            chunk.delta(D.data());
            if (i == 0 && !p.state) std::swap(U, D);
            else combine(U.data(), D.data(), 0, state_size, chunk.carry());
        }
        chunk.export_state(U.data(), state_of(h));
    });

    if (whole == heads) return;
    const Index wave = std::min(blocks, 4 * crew);
    std::vector<Chunk> chunks;
    std::vector<Buffer<T>> D;
    for (Index i = 0; i < wave; ++i) {
        chunks.emplace_back(p, c);
        D.emplace_back(state_size);
    }
    Buffer<T> U(state_size);
    constexpr Index slab = 4096;
    for (Index h = whole; h < heads; ++h) {
        if (p.state) chunks[0].import_state(state_of(h), U.data());
        else std::fill_n(U.data(), state_size, T(0));
        for (Index first = 0; first < blocks; first += wave) {
            const Index count = std::min(wave, blocks - first);
            const bool update = p.state || first + count < blocks;
            parallel_for(count, [&](Index i) {
                auto& chunk = chunks[static_cast<std::size_t>(i)];
                chunk.load(h, (first + i) * c, length(first + i));
                chunk.scores();
                if (i + 1 < count || update) chunk.delta(D[static_cast<std::size_t>(i)].data());
            });
            parallel_for((state_size + slab - 1) / slab, [&](Index s) {
                const Index from = s * slab, to = std::min(state_size, from + slab);
                for (Index i = 0; i < count; ++i) {
                    auto& Di = D[static_cast<std::size_t>(i)];
                    if (i + 1 < count || update)
                        combine(U.data(), Di.data(), from, to, chunks[static_cast<std::size_t>(i)].carry());
                    else std::copy(U.data() + from, U.data() + to, Di.data() + from);
                }
            });
            parallel_for(count, [&](Index i) {
                chunks[static_cast<std::size_t>(i)].output(
                    first + i > 0 || p.state ? D[static_cast<std::size_t>(i)].data() : none);
            });
        }
        if (p.state) chunks[0].export_state(U.data(), state_of(h));
    }
}

}  // namespace causeway::exact
