// The producer: one thread that brings the queries once, then keys and values, each through its own pipeline.
#pragma once

#include "gpu/softmax/flash/layout.cuh"

namespace causeway::gpu::softmax::flash {

// Tokens from `token` on of a head, all columns, to shared memory; `full` counts the bytes. Past the end: zeros.
template <int D>
__device__ __forceinline__ void load_tile(uint32_t to, const CUtensorMap& map, uint32_t full, int32_t token, int head,
                                          int batch, uint64_t policy) {
    using L = Layout<D>;
    for (uint32_t i = 0; i < L::boxes; ++i)
        ptx::tma_load(to + i * L::box_bytes, map, full, box_columns * i, token, head, batch, policy);
}

template <int D>
__device__ __forceinline__ void load(const TensorMaps& maps, const Layout<D>& memory, const Block& block) {
    using L = Layout<D>;
    ptx::mbarrier_arrive_expect_tx(memory.q_full(), L::token_tile_bytes);
    load_tile<D>(memory.q(), maps.q, memory.q_full(), block.first, block.query_head, block.batch, ptx::evict_first);
    for (uint32_t j = 0; j < block.tiles; ++j) {
        const auto next = [&](const auto& pipeline, const CUtensorMap& map) {
            pipeline.producer_acquire(j);
            pipeline.producer_expect(j, L::token_tile_bytes);
            load_tile<D>(pipeline.at(j), map, pipeline.full(j), static_cast<int32_t>(j) * tile_tokens, block.head,
                         block.batch, ptx::evict_normal);
        };
        next(memory.k, maps.k);
        next(memory.v, maps.v);
    }
}

}  // namespace causeway::gpu::softmax::flash
