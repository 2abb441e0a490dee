// How the decompositions of Eigen are run: their loops know of no interrupt, and their memory is not ours to count.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/abandonable.hpp"
#include "core/base/memory.hpp"

namespace causeway::dense {

// Memory that is counted as held while one of its owners lives: the caller of a decomposition, and the decomposition
// itself, which may outlive the call when that is interrupted.
using Room = std::shared_ptr<const Buffer<double>>;

// For that many numbers. Throws OutOfMemory where there is no room for them.
inline Room room(Index numbers) { return std::make_shared<const Buffer<double>>(numbers); }

// Returns f(), which decomposes an m × n matrix of its own, on a thread that an interrupt abandons unless the matrix is
// so small that it is done at once.
template <class F>
auto interruptible(Index m, Index n, Room room, F f) {
    constexpr Index small = 1 << 24;  // multiply-adds of a product of that size
    if (m * n * std::min(m, n) < small) return f();
    return abandonable([f = std::move(f), room = std::move(room)]() mutable { return f(); });
}

}  // namespace causeway::dense
