// The role of one thread for each state warpgroup: TMA stores of its outputs.
#pragma once

#include "gpu/gated/delta/layout.cuh"
#include "gpu/gated/delta/work.cuh"

namespace causeway::gpu::gated_delta {

template <int R, int D>
__device__ __forceinline__ void store(Pipelines<R, D> pipes, const Maps& maps, Split split, uint32_t warpgroup) {
    const auto out = pipes.out(warpgroup);
    for (uint32_t c = split.first; c < split.last; ++c) {
        out.consumer_wait(c - split.first);
        ptx::tma_store(maps.o, out.at(c - split.first), split.column_block * D + 64 * warpgroup, c * chunk, split.h,
                       split.b, ptx::evict_first);
        ptx::tma_store_commit();
        if (c + 1 == split.last) ptx::tma_store_wait<0>();  // for walk_again(), which reads them
        else ptx::tma_store_wait_read<0>();
        ptx::mbarrier_arrive(out.empty(c - split.first));
    }
}

}  // namespace causeway::gpu::gated_delta
