// How a call is cut over the multiprocessors.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/exact/lightning/call.hpp"

namespace causeway::gpu::la {

constexpr int max_splits = 192;
constexpr int from_memory = -1;  // Head::reach: earlier kernels store states

struct Head {  // its decay
    float log2_gamma;
    int reach;  // chunks back that still count
};

// All chunks of all heads of all problems, one after the other, are cut into splits. Where one starts inside a head
// whose states come from memory, earlier kernels follow the chunks before it in this head and store states.
struct Plan {
    int splits = 0;
    int parts = 0;        // states that la_state stores for each split; 0: not needed
    int tasks = 0;        // Float32: blocks of la_bf16x3 that store states; 0: not needed
    uint32_t task = 0;    // chunks that each task follows
    bool scan = false;    // la_scan sums the states: some head has many
    bool handed = false;  // a split hands its state on to the next, in one launch
    double time = 0;      // as estimated
    std::vector<Head> head;
    std::vector<uint32_t> bound;     // split i is the chunks [bound[i], bound[i+1])
    std::vector<uint32_t> followed;  // Float32: [splits + 1], chunks before split i that are followed
    std::vector<uint8_t> order;      // Float32: the splits, those that wait for no state first

    bool stores_states() const { return parts > 0 || tasks > 0; }
    // Room for so many states; where they are handed on the last is for Work::handed.
    int states() const { return handed ? splits + 1 : tasks > 0 ? splits + tasks : splits * parts; }
};

// The quickest, as estimated; the last few are remembered.
const Plan& plan(const Call& call);

}  // namespace causeway::gpu::la
