// What every method checks before it launches anything.
#pragma once

#include <algorithm>
#include <cmath>

#include "gpu/base/error.hpp"
#include "gpu/exact/problem.hpp"

namespace causeway::gpu {

constexpr int max_width = 256;  // r and d

// Throws Error, naming the method, for sizes and decays that no method takes.
inline void check_causal(const char* method, const CausalArgs& a) {
    if (a.B < 0 || a.H < 0 || a.N < 0)
        fail(method, ": B, H, N are ", a.B, ", ", a.H, ", ", a.N, ", expected none below 0");
    if (a.r < 1 || a.d < 1 || a.r > max_width || a.d > max_width)
        fail(method, ": r and d are ", a.r, " and ", a.d, ", expected 1 to ", max_width);
    for (std::int64_t h = 0; h < a.H; ++h) {
        if (!(a.decay_of(h) > 0 && a.decay_of(h) <= 1)) fail("decay: ", a.decay_of(h), ", expected a number in (0, 1]");
    }
    if (a.block < 0) fail("block: ", a.block, ", expected 1 or more");
}

inline void check_workspace(const char* method, const CausalArgs& a,
                            std::size_t need) {  // throws Error where it is smaller
    if (need > a.workspace.bytes) fail(method, ": a workspace of ", a.workspace.bytes, " bytes, expected ", need);
}

// Tokens of a block for the methods that can be given one: that, or their own; a block longer than the sequence is the
// sequence.
constexpr std::int64_t own_block = 128;
inline std::int64_t block_of(const CausalArgs& a) {
    return std::min(a.block > 0 ? a.block : own_block, std::max<std::int64_t>(a.N, 1));
}

inline bool empty(const CausalArgs& a) { return a.B == 0 || a.H == 0 || a.N == 0; }

}  // namespace causeway::gpu
