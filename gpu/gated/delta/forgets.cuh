// Which heads take the maps of the parts: those whose gates do not forget soon enough.
#pragma once

#include "gpu/gated/delta/work.cuh"
#include "gpu/kit/limits.hpp"
#include "gpu/kit/ptx.cuh"
#include "gpu/kit/warp.cuh"

namespace causeway::gpu::gated_delta {

constexpr int forgets_threads = 512;

// Whether the gates' product falls to 2^-24 within `reach` chunks before `first`, or the sequence begins there
// (`or_begins` alone). By a warp.
__device__ __forceinline__ bool forgets(const float* g, uint32_t first, uint32_t reach, bool or_begins) {
    constexpr int64_t at_once = 4 * chunk;
    const int lane = threadIdx.x % 32;
    const int64_t end = int64_t{first} * chunk, begin = end - int64_t{min(first, reach)} * chunk;
    if (begin == 0 && or_begins) return true;
    float left = limits::unseen_weight_bits;
    for (int64_t at = end; at > begin && left > 0; at -= at_once) {
        float x = 0;
#pragma unroll
        for (int i = 0; i < at_once / 32; ++i) {
            const int64_t t = at - 1 - 32 * i - lane;
            if (t >= begin) x += fmaxf(g[t] * limits::log2_e, -limits::zero_gate_bits);
        }
        left += sum_of_warp(x);
    }
    return left <= 0;
}

// A thread block for each head of k and v of a sequence, a warp for each split: a warm-up may take as many chunks as
// the split before has, or a few. At fixed places, and where packed sequences are cut together, each split goes by the
// gates before it alone, and the maps are made where any needs them.
template <bool packed>
__global__ __launch_bounds__(forgets_threads) void delta_forgets(const __grid_constant__ Told<packed> work) {
    constexpr uint32_t few_chunks = 8;
    ptx::griddepcontrol_launch_dependents();
    if constexpr (packed) take_walk(work), await_walk(work);
    const Sequence<packed ? Walks::own : Walks::none> sequence{work};
    const uint32_t kv_bh = packed ? blockIdx.x % work.walk_blocks : blockIdx.x;
    const float* const g = sequence.g_of(kv_bh);
    const bool by_split = packed && work.starts;
    bool all = true;
    for (uint32_t split = 1 + threadIdx.x / 32; split < sequence.splits() && (all || by_split);
         split += forgets_threads / 32) {
        const uint32_t first = sequence.bound(split);
        const bool soon = forgets(g, first, max(first - sequence.bound(split - 1), few_chunks), !by_split);
        if (by_split && threadIdx.x % 32 == 0) *sequence.start_of(split, kv_bh) = !soon;
        all = all && soon;
    }
    all = __syncthreads_and(all);
    if (threadIdx.x == 0) *sequence.transfers_of(kv_bh) = !all;
}

}  // namespace causeway::gpu::gated_delta
