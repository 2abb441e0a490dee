// The producer: one thread that brings the block's own rows once, then those that pass by, a and b each through its own
// pipeline, with the sums of queries that pass by.
#pragma once

#include "gpu/gradient/softmax_hopper/layout.cuh"

namespace causeway::gpu::softmax::backward {

template <class Pass>
__device__ __forceinline__ void load(const TensorMaps& maps, const Gradient& g, const Layout<Pass>& memory, Pass pass) {
    using L = Layout<Pass>;
    // Rows from `row` on, all columns. Past the end: zeros.
    const auto load_tile = [&](uint32_t to, uint32_t box_bytes, const CUtensorMap& map, uint32_t full, int32_t row,
                               int32_t head) {
        for (uint32_t i = 0; i < L::boxes; ++i)
            ptx::tma_load(to + i * box_bytes, map, full, box_columns * i, row, head, pass.batch, ptx::evict_normal);
    };
    ptx::mbarrier_arrive_expect_tx(memory.own_full(), 2 * L::own_bytes);
    load_tile(memory.own_a(), L::own_box_bytes, maps.own_a, memory.own_full(), pass.own0, pass.own_head);
    load_tile(memory.own_b(), L::own_box_bytes, maps.own_b, memory.own_full(), pass.own0, pass.own_head);
    for (uint32_t j = 0; j < static_cast<uint32_t>(pass.tiles); ++j, pass.advance()) {
        const auto next = [&](const auto& pipeline, const CUtensorMap& map, uint32_t to, const float* sums) {
            pipeline.producer_acquire(j);
            pipeline.producer_expect(j, L::tile_bytes + (Pass::own_keys ? L::sums_bytes : 0));
            load_tile(pipeline.at(j), L::box_bytes, map, pipeline.full(j), pass.row0, pass.head);
            if (!Pass::own_keys) return;
            ptx::bulk_load(to, sums + (sums_of(g, pass, pass.head) + pass.row0), L::sums_bytes, pipeline.full(j));
        };
        next(memory.a, maps.passing_a, memory.lse2(j), g.lse2);
        next(memory.b, maps.passing_b, memory.dots(j), g.D);
    }
}

}  // namespace causeway::gpu::softmax::backward
