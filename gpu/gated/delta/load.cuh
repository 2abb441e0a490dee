// The role of one thread: TMA loads of k, q and v, tile after tile.
#pragma once

#include "gpu/gated/delta/layout.cuh"
#include "gpu/gated/delta/work.cuh"

namespace causeway::gpu::gated_delta {

// `boxes` tiles of 64 columns each, from `column` on, of the 64 tokens of a head from `token` on, as item n of the
// pipeline; `bar` counts their bytes.
template <class P>
__device__ __forceinline__ void load_boxes(const P& pipe, uint32_t n, const CUtensorMap& map, uint32_t bar,
                                           uint32_t boxes, int column, uint32_t token, uint32_t head, uint32_t b,
                                           uint64_t policy) {
    pipe.producer_acquire(n);
    ptx::mbarrier_arrive_expect_tx(bar, boxes * tile_bytes);
    for (uint32_t i = 0; i < boxes; ++i)
        ptx::tma_load(pipe.at(n) + i * tile_bytes, map, bar, column + 64 * i, token, head, b, policy);
}
template <class P>
__device__ __forceinline__ void load_tile(const P& pipe, uint32_t n, const CUtensorMap& map, uint32_t boxes, int column,
                                          uint32_t token, uint32_t head, uint32_t b, uint64_t policy) {
    load_boxes(pipe, n, map, pipe.full(n), boxes, column, token, head, b, policy);
}
// The same where the sequence has `rows` of those tokens alone, by a warp: tokens of the next sequence become zeros, as
// TMA has them behind the end of a tensor, before anybody is told of the tile. `landed` and `cleared` are barriers in
// the phase of this parity.
template <class P>
__device__ __forceinline__ void load_last_tile(const P& pipe, uint32_t n, const CUtensorMap& map, uint32_t landed,
                                               uint32_t cleared, uint32_t parity, uint32_t rows, uint32_t boxes,
                                               int column, uint32_t token, uint32_t head, uint32_t b, uint64_t policy) {
    const uint32_t lane = threadIdx.x % 32;
    if (lane == 0) load_boxes(pipe, n, map, landed, boxes, column, token, head, b, policy);
    ptx::mbarrier_wait(landed, parity);
    for (uint32_t i = 0; i < boxes; ++i) {
        const uint32_t tile = pipe.at(n) + i * tile_bytes;
        for (uint32_t at = tile + rows * 128 + 16 * lane; at < tile + tile_bytes; at += 16 * 32)
            ptx::st_shared(at, {0, 0, 0, 0});
    }
    ptx::fence_proxy_async();
    if constexpr (warp_arrivals > 1) ptx::mbarrier_arrive(cleared), ptx::mbarrier_wait(cleared, parity);
    else __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(pipe.full(n));
}

// k and v of every chunk of the walk, q where there are outputs. What no other head and no other block of columns reads
// is to leave L2 first. Splits are not considered here, though a later split reads k and v of earlier chunks once more.
// By one thread, or for packed sequences by its warp.
template <int R, int D, Walks walks>
__device__ __forceinline__ void load(Pipelines<R, D> pipes, const Maps& maps, const Work& work, Split<walks> split) {
    constexpr bool packed = Split<walks>::packed;
    const auto policy = [](bool read_again) { return read_again ? ptx::evict_normal : ptx::evict_first; };
    const uint64_t k_policy = policy(work.column_blocks * work.group > 1);
    // TMA sees one head where all share it.
    const uint32_t k_h = work.k_stride.head == 0 ? 0 : split.kv_h, q_h = work.q_stride.head == 0 ? 0 : split.h;
    const uint32_t before = split.first_token(work), whole = split.whole(work);
    for (uint32_t c = split.start; c < whole && (!packed || threadIdx.x % 32 == 0); ++c) {
        const uint32_t token = before + c * chunk;
        load_tile(pipes.k, c - split.start, maps.k, R / 64, 0, token, k_h, split.b, k_policy);
        if (c >= split.first)
            load_tile(pipes.q, c - split.first, maps.q, R / 64, 0, token, q_h, split.b, policy(work.column_blocks > 1));
        load_tile(pipes.v, c - split.start, maps.v, D / 64, split.column_block * D, token, split.kv_h, split.b,
                  policy(work.group > 1));
    }
    if (!packed || whole == split.last) return;
    // Rows of q behind the end reach outputs that are not stored alone. Maps are never made of a last chunk.
    const uint32_t token = before + whole * chunk, rows = static_cast<uint32_t>(split.tokens(work)) - whole * chunk;
    load_last_tile(pipes.k, whole - split.start, maps.k, pipes.landed(), pipes.cleared(), 0, rows, R / 64, 0, token,
                   k_h, split.b, k_policy);
    if (threadIdx.x % 32 == 0)
        load_tile(pipes.q, whole - split.first, maps.q, R / 64, 0, token, q_h, split.b, policy(work.column_blocks > 1));
    load_last_tile(pipes.v, whole - split.start, maps.v, pipes.landed(), pipes.cleared(), 1, rows, D / 64,
                   split.column_block * D, token, split.kv_h, split.b, policy(work.group > 1));
}

}  // namespace causeway::gpu::gated_delta
