// How lightning_attention_2 is cut over the multiprocessors, and the two ways to run it.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <vector>

#include "gpu/exact/lightning.hpp"

namespace causeway::gpu::la {

constexpr int chunk = 64, most_stretches = 192, most_heads = 256, most_problems = 3;
constexpr int from_memory = -1;  // Head::reach: earlier kernels leave states

// Problems done together, alike in type, B, H, N and γ. Reversed time: O_i = Σ_{j >= i} γ^(j-i) (q_i·k_j) v_j.
struct Call {
    std::array<CausalArgs, most_problems> problem;
    int count = 1;
    unsigned reversed = 0;         // bit i: problem i runs over later tokens; it has no state
    std::int64_t state_batch = 0;  // elements from one batch of the states to the next
    Workspace workspace;

    const CausalArgs& any() const { return problem[0]; }
};

// Bytes of workspace for the call, and the call itself: on tensor cores where they reach all its problems, else on FMA
// units; heads in groups of most_heads. Arguments are already checked.
std::size_t workspace(const Call& call);
void run(const Call& call, cudaStream_t stream);

// Throws Error, naming the function, for sizes or decays that no kernel has.
void check_args(const char* function, const CausalArgs& a);

struct Head {  // its decay
    float log2_gamma;
    int reach;  // chunks back that still count
};

// A line of chunks is cut into stretches: all chunks of all heads of all problems, one after the other. Where one
// starts inside a head whose states come from memory, earlier kernels follow the chunks before it in this head and
// leave states.
struct Plan {
    int stretches = 0;
    int parts = 0;      // states that la_state leaves for each stretch; 0: not needed
    int tasks = 0;      // Float32: blocks of la_split that leave states; 0: not needed
    uint32_t task = 0;  // chunks for each
    bool scan = false;  // la_scan sums the states: some head has many
    double time = 0;    // as estimated
    std::vector<Head> head;
    std::vector<uint32_t> bound;
    std::vector<uint32_t> followed;  // Float32: [stretches + 1], chunks before stretch b that are followed
    std::vector<uint8_t> order;      // Float32: the stretches, those that wait for no state first

    int states() const { return tasks > 0 ? stretches + tasks : stretches * parts; }
};

// The quickest, as estimated; the last few are remembered.
const Plan& plan(const Call& call);

// On tensor cores, as planned; Hopper only.
void run_hopper(const Call& call, const Plan& p, cudaStream_t stream);

// On FMA units, any device and stride; r and d at most portable_most.
constexpr int portable_most = 256;
void run_portable(const CausalArgs& a, bool reversed, std::int64_t state_batch, cudaStream_t stream);

// r or d as the kernels for Hopper know it.
constexpr int padded(int n) { return n <= 64 ? 64 : 128; }

}  // namespace causeway::gpu::la
