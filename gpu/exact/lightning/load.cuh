// The load producer of la_output: one thread that starts the TMA loads of all chunks of its split.
#pragma once

#include "gpu/exact/lightning/block.cuh"

namespace causeway::gpu::la {

// A tensor that all blocks of the cluster read, 64 tokens by R columns: each block loads its share of the tokens for
// all.
template <int R, int C, bool bidirectional>
__device__ __forceinline__ void load_for_cluster(const OutputBlock<R, C, bidirectional>& block,
                                                 const CUtensorMap& tensor, uint32_t to, uint32_t bar, const Piece& p,
                                                 uint32_t c) {
#pragma unroll
    for (int i = 0; i < R / 64; ++i) {
        const uint32_t box = to + i * tile_bytes + block.rank * (tile_bytes / C);
        const int token = p.token(c) + block.rank * (chunk / C);
        if constexpr (C == 1) ptx::tma_load(box, tensor, bar, 64 * i, token, p.h, p.b, input_policy);
        else ptx::tma_load_multicast((1 << C) - 1, box, tensor, bar, 64 * i, token, p.h, p.b, input_policy);
    }
}

// Chunk c into the next stage. A chunk that is only replayed needs no q.
template <int R, int C, bool bidirectional>
__device__ __forceinline__ void load_chunk(const OutputBlock<R, C, bidirectional>& block,
                                           PipelineState<OutputShared<R>::stages>& position, const Piece& p, uint32_t c,
                                           bool with_q) {
    using Stage = OutputStage<R>;
    const uint32_t at = block.stages.at(position), bar = block.stages.full(position);
    const Tensors& map = block.maps.of[p.problem];
    block.stages.producer_acquire(position);
    block.stages.producer_expect(position, with_q ? sizeof(Stage) : sizeof(Stage) - sizeof(Stage::q));
    if (with_q) load_for_cluster(block, map.q, at + offsetof(Stage, q), bar, p, c);
    load_for_cluster(block, map.k, at + offsetof(Stage, k), bar, p, c);
    ptx::tma_load(at + offsetof(Stage, v), map.v, bar, block.rank * 64, p.token(c), p.h, p.b, input_policy);
    position.advance();
}

template <int R, int C, bool bidirectional>
__device__ __forceinline__ void load_role(const OutputBlock<R, C, bidirectional>& block) {
    PipelineState<OutputShared<R>::stages> position;
    block.each_piece([&](const Piece& p, uint32_t back) {
        for (uint32_t i = 1; i <= back; ++i) load_chunk(block, position, p, p.first - i, false);
        for (uint32_t c = p.first; c < p.last; ++c) load_chunk(block, position, p, c, true);
    });
}

}  // namespace causeway::gpu::la
