// How delta_hopper cuts the sequences over the multiprocessors.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "gpu/gated/problem.hpp"

namespace causeway::gpu::gated_delta {

constexpr int chunk = 64, max_splits = 128;
constexpr int scan_columns = 16;  // of the state that a thread block of the scan has

struct Plan {
    std::vector<std::uint32_t> bound;  // split i of every sequence owns the chunks [bound[i], bound[i+1])
    int columns = 64;                  // of v that one thread block owns
    std::int64_t column_blocks = 1, batch_heads = 1;  // thread blocks along v; heads of q in all batches
    std::int64_t state_heads = 1;                     // heads of k and v in all batches
    // Every split but the last is cut into so many parts, each of which has its map S ↦ A S + B of the state.
    int finer = 1;
    // Thread blocks along the columns of A; 0 without the delta rule, where A is the product of the gates.
    std::int64_t identity_blocks = 0;
    int rows = 64;  // of the state, and columns of A, as kernels hold them: 64 or 128

    int splits() const { return static_cast<int>(bound.size()) - 1; }
    int parts() const { return (splits() - 1) * finer; }
};

// What lies where in the workspace, and its size: a copy of the state, where several blocks read one that one of them
// overwrites (more than one split, or heads of q that share the state); A of every part but the first, Float32
// [parts - 1, state_heads, dk, rows]; B of every part, Float32 [parts, state_heads, dk, dv]; and whether a head takes
// the maps, [state_heads]. Null where there is none.
struct Scratch {
    float *state, *A, *B;
    int* transfers;
    std::size_t bytes;
};
Scratch scratch_of(const GatedArgs& a, const Plan& p);

// As many splits as take the least time on this device, as far as the sizes tell.
Plan plan_of(const GatedArgs& a);

// The kernels, on arguments that are already checked, with a workspace that has room for scratch_of().
void run_hopper(const GatedArgs& a, const Plan& p, cudaStream_t stream);

}  // namespace causeway::gpu::gated_delta
