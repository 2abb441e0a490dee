// Named barriers of thread blocks. The hardware has sixteen for each block and knows them by number alone, so the
// numbers of each kernel are listed here; number 0 is __syncthreads().
#pragma once

#include <cstdint>

namespace causeway::gpu::barriers {

constexpr std::uint32_t warpgroup = 128;  // threads

// Lightning Attention-2 on 16-bit elements.
enum Lightning : std::uint32_t {
    lightning_outputs = 1,  // the state warpgroup: its output tile may be written, and has been written
    lightning_scores = 2    // the score warpgroup: its score tile has been written
};

// Lightning Attention-2 on Float32 elements, each as two BFloat16.
enum LightningBf16x3 : std::uint32_t {
    bf16x3_scores = 1,  // the score warpgroup: its score tile has been written
    bf16x3_values = 2   // + i, state warpgroup i: its values have been read, its outputs have been written
};

// The gated delta rule.
enum Delta : std::uint32_t {
    // The auxiliary warpgroup: its tiles are cleared (once); A and the inverses of its diagonal blocks are written.
    delta_auxiliary = 1,
    // + i, both state warpgroups, where there are two: it is the turn of warpgroup i on the tensor cores. i waits, the
    // other one arrives without waiting.
    delta_turns = 2,
    // + i, state warpgroup i: whether its last state is finite.
    delta_finite = 4
};

// Gates per key channel.
enum Channels : std::uint32_t {
    channels_state = 1,   // the state before the chunk lies in shared memory
    channels_values = 2,  // so does U, and the state has been read
    channels_finite = 3   // whether the last state is finite
};

// The gradient of softmax attention.
enum SoftmaxGradient : std::uint32_t {
    softmax_gradient_rows = 1  // + i, consumer warpgroup i: its gradients lie in shared memory, or have been written
};

// Flash attention.
enum Flash : std::uint32_t {
    flash_output = 1  // + i, consumer warpgroup i: its queries have been read, its output has been written
};

}  // namespace causeway::gpu::barriers
