// How work spreads over the threads: heads, or blocks of rows. Nothing here depends on the number of threads but the
// order in which independent pieces are computed, so results do not either.
#pragma once

#include <algorithm>

#include "core/base/interrupt.hpp"
#include "core/base/parallel.hpp"

namespace causeway::kit {

// f(head) for every head of a problem, which has all_heads() of them and gives one with head(h).
template <class Problem, class F>
void each_head(const Problem& p, F&& f) {
    parallel_for(p.all_heads(), [&](Index h) { f(p.head(h)); });
}

// The same on the calling thread, one head after the other: counted operations belong to the thread that counts them.
template <class Problem, class F>
void each_head_in_turn(const Problem& p, F&& f) {
    for (Index h = 0; h < p.all_heads(); ++h) {
        interrupt::check();
        f(p.head(h));
    }
}

// f(first row, rows) for the blocks of n rows, the last of which may be shorter.
template <class F>
void each_block(Index n, F&& f, Index block = 256) {
    parallel_for((n + block - 1) / block, [&](Index i) { f(i * block, std::min(block, n - i * block)); });
}

}  // namespace causeway::kit
