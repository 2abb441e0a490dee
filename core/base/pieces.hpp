// Long loops in pieces, so that Ctrl-C and time limits are heard between them.
#pragma once

#include <algorithm>

#include "core/base/parallel.hpp"

namespace causeway {

// f(first, last) for pieces of [0, n), on several threads where there are several pieces.
template <class F>
void in_pieces(Index n, F&& f) {
    constexpr Index piece = Index{1} << 20;
    if (n <= piece) return f(Index{0}, n);
    parallel_for((n + piece - 1) / piece, [&](Index p) { f(p * piece, std::min(n, (p + 1) * piece)); });
}

}  // namespace causeway
