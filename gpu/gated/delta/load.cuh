// The role of one thread: TMA loads of k, q and v, tile after tile.
#pragma once

#include "gpu/gated/delta/layout.cuh"
#include "gpu/gated/delta/work.cuh"

namespace causeway::gpu::gated_delta {

// `boxes` tiles of 64 columns each, from `column` on, of chunk c of a head, as item n of the pipeline.
template <class P>
__device__ __forceinline__ void load_tile(const P& pipe, uint32_t n, const CUtensorMap& map, uint32_t boxes, int column,
                                          uint32_t c, uint32_t head, uint32_t b, uint64_t policy) {
    pipe.producer_acquire(n);
    pipe.producer_expect(n, boxes * tile_bytes);
    for (uint32_t i = 0; i < boxes; ++i)
        ptx::tma_load(pipe.at(n) + i * tile_bytes, map, pipe.full(n), column + 64 * i, c * chunk, head, b, policy);
}

// k and v of every chunk of the walk, q where there are outputs. What no other head and no other block of columns reads
// is to leave L2 first. Splits are not considered here, though a later split reads k and v of earlier chunks once more.
template <int R, int D>
__device__ __forceinline__ void load(Pipelines<R, D> pipes, const Maps& maps, const Work& work, Split split) {
    const auto policy = [](bool read_again) { return read_again ? ptx::evict_normal : ptx::evict_first; };
    const uint64_t k_policy = policy(work.column_blocks * work.group > 1);
    // TMA sees one head where all share it.
    const uint32_t k_h = work.k_stride.head == 0 ? 0 : split.kv_h, q_h = work.q_stride.head == 0 ? 0 : split.h;
    for (uint32_t c = split.start; c < split.last; ++c) {
        load_tile(pipes.k, c - split.start, maps.k, R / 64, 0, c, k_h, split.b, k_policy);
        if (c >= split.first)
            load_tile(pipes.q, c - split.first, maps.q, R / 64, 0, c, q_h, split.b, policy(work.column_blocks > 1));
        load_tile(pipes.v, c - split.start, maps.v, D / 64, split.column_block * D, c, split.kv_h, split.b,
                  policy(work.group > 1));
    }
}

}  // namespace causeway::gpu::gated_delta
