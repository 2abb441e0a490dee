// The kernel that makes the outputs, from 16-bit elements: it sets up and dispatches to the roles.
#pragma once

#include "gpu/exact/lightning/load.cuh"
#include "gpu/exact/lightning/output.cuh"
#include "gpu/exact/lightning/scores.cuh"
#include "gpu/exact/lightning/watch.cuh"

namespace causeway::gpu::la {

// Registers of a thread after setmaxnreg: the block starts with 168 for each, and 40 + 152 + 256 = 448 of the 3 · 168 =
// 504 are used.
//
// One block to a split; with C = 2, a cluster of two blocks shares a split: each has half of up to 128 columns of v,
// and makes half the scores and reads half of q and k for both.
template <class E, int R, int C, bool bidirectional>
__global__ __launch_bounds__(384, 1) void la_output(const __grid_constant__ Maps<bidirectional> maps,
                                                    const __grid_constant__ Work work) {
    using Block = OutputBlock<R, C, bidirectional>;
    extern __shared__ uint8_t raw[];
    const uint32_t base = round_up_to_swizzle_atom(ptx::shared_address(raw));
    const int group = threadIdx.x / 128;
    const Block block{maps,
                      work,
                      base,
                      {base},
                      {base},
                      blockIdx.x / C,
                      C > 1 ? ptx::cluster_rank() : 0,
                      static_cast<int>(threadIdx.x % 128 / 32),
                      static_cast<int>(threadIdx.x % 32)};
    if (threadIdx.x == 0) {
        if constexpr (!bidirectional) prefetch(maps.of[0]);
        block.stages.init(1, 8 * C + 1);  // emptied by two warpgroups of each block and by the watch of its own
        block.scores.init(2, 4 * C);      // filled by the score warpgroup and the watch
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    if constexpr (C > 1) ptx::cluster_sync();

    if (group == 0) {
        ptx::reg_dealloc<40>();
        if (threadIdx.x == 0) load_role(block);
        else if (block.warp == 1) watch_role<E>(block);
    } else if (group == 1) {
        ptx::reg_dealloc<152>();
        score_role<E>(block);
    } else {
        ptx::reg_alloc<256>();
        OutputRole<E, R, C, bidirectional>(block).run();
    }
    // The other block still tells this one's barriers what it has read.
    if constexpr (C > 1) {
        __syncwarp();
        ptx::cluster_sync();
    }
}

}  // namespace causeway::gpu::la
