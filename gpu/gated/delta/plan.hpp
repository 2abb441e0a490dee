// How delta_hopper cuts the sequences over the multiprocessors.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "gpu/gated/problem.hpp"

namespace causeway::gpu::gated_delta {

constexpr int chunk = 64, max_splits = 128;

struct Plan {
    std::vector<std::uint32_t> bound;  // split i of every sequence owns the chunks [bound[i], bound[i+1])
    int columns = 64;                  // of v that one thread block owns
    std::int64_t column_blocks = 1, batch_heads = 1;  // thread blocks along v; heads of q in all batches
    int splits() const { return static_cast<int>(bound.size()) - 1; }
};

// As many splits as take the least time on this device, as far as the sizes tell.
Plan plan_of(const GatedArgs& a);

// The kernel, on arguments that are already checked. Where several blocks read a state that one of them overwrites
// (more than one split, or heads of q that share the state), the state is first copied to the workspace, which must
// have room for it (delta_hopper_workspace).
void run_hopper(const GatedArgs& a, const Plan& p, cudaStream_t stream);

}  // namespace causeway::gpu::gated_delta
