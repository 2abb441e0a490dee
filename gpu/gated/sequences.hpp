// Packed sequences: consecutive tokens of every head that know nothing of those before them.
#pragma once

#include <cstdint>

namespace causeway::gpu {

// On the host: the tokens offsets[i] ... offsets[i + 1] - 1 are the i-th of `count` sequences, which may be empty.
// Where a call has them, its state is [count, B, H, dk, dv].
struct Sequences {
    const std::int64_t* offsets = nullptr;
    std::int64_t count = 0;
};

}  // namespace causeway::gpu
