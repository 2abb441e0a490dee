// Lightning Attention-2 on Float32 tensors with BFloat16 tensor cores ("bf16x3"): every operand is the sum of two
// BFloat16, hi + lo, and hi·hi + hi·lo + lo·hi stand for the product (relative error of an operand 2^-17). The kernel
// sets up and dispatches to the roles.
#pragma once

#include "gpu/exact/lightning/bf16x3/convert.cuh"
#include "gpu/exact/lightning/bf16x3/load.cuh"
#include "gpu/exact/lightning/bf16x3/output.cuh"
#include "gpu/exact/lightning/bf16x3/scores.cuh"

namespace causeway::gpu::la {

// One block to a split. Of warpgroup 0 one warp loads and the others convert k; 1 converts q and makes the scores; 2
// and 3 own 64 columns of v each: splits and formulas are la_output's. With `stores_states`, one block to a task, it
// does what la_state does instead, and 1 converts k too.
//
// Registers of a thread after setmaxnreg: a block of 512 threads (D = 128) starts with 128 for each, and
// 32 + 80 + 2 · 200 = 4 · 128; one of 384 threads starts with 168 for each and uses 312 of 504.
template <int R, int D, bool stores_states, bool bidirectional>
__global__ __launch_bounds__(Bf16x3Block<R, D, stores_states, bidirectional>::threads,
                             1) void la_bf16x3(const __grid_constant__ Maps<bidirectional> maps,
                                               const __grid_constant__ Bf16x3Work work) {
    using Block = Bf16x3Block<R, D, stores_states, bidirectional>;
    extern __shared__ uint8_t raw[];
    const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
    const Block block{maps, work, round_up_to_swizzle_atom(ptx::shared_address(raw)),
                      __shfl_sync(~0u, static_cast<int>(threadIdx.x % 128 / 32), 0),
                      static_cast<int>(threadIdx.x % 32)};
    if (threadIdx.x == 0) {
        if constexpr (!bidirectional) prefetch(maps.of[0]);
        constexpr uint32_t state_warps = 4 * Block::groups * warp_arrivals,
                           score_warps = stores_states ? 0 : 4 * warp_arrivals;
        block.k().init(Block::k_converters, state_warps + score_warps);
        for (int g = 0; g < Block::groups; ++g) block.v(g).init(1, 1);
        if constexpr (!stores_states) {
            block.q().init(Block::q_converters, state_warps + score_warps);
            block.scores().init(1, state_warps);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    if constexpr (stores_states) ptx::griddepcontrol_launch_dependents();

    if (group == 0) {
        ptx::reg_dealloc<32>();
        if (block.warp != 3) convert_role(block, block.warp);
        else if (block.lane == 0) Bf16x3Load<R, D, stores_states, bidirectional>(block).run();
    } else if (group == 1) {
        ptx::reg_dealloc<80>();
        if constexpr (stores_states) convert_role(block, 3 + block.warp);
        else bf16x3_score_role(block);
    } else {
        ptx::reg_alloc<200>();
        Bf16x3Role<R, D, stores_states, bidirectional>(block, group - 2).run();
    }
}

}  // namespace causeway::gpu::la
