// The load producer of la_bf16x3: one thread that starts the TMA loads of all chunks of its split or task.
#pragma once

#include "gpu/exact/lightning/bf16x3/block.cuh"

namespace causeway::gpu::la {

template <int R, int D, bool stores_states, bool bidirectional>
struct Bf16x3Load {
    using Block = Bf16x3Block<R, D, stores_states, bidirectional>;
    using Shared = typename Block::Shared;
    using Position = PipelineState<Shared::stages>;

    const Block& block;
    Position q, k, v;

    explicit __device__ __forceinline__ Bf16x3Load(const Block& b) : block(b) {}

    // R columns of q or k, in boxes of 32.
    template <class Pipe>
    __device__ __forceinline__ void load_rows(const Pipe& pipe, Position& position, const CUtensorMap& map,
                                              const Piece& p, uint32_t c) const {
        pipe.producer_acquire(position);
        pipe.producer_expect(position, R / 64 * sizeof(TilePair));
#pragma unroll
        for (int i = 0; i < R / 32; ++i) {
            ptx::tma_load(pipe.at(position) + i * tile_bytes, map, pipe.full(position), 32 * i, p.token(c), p.h, p.b,
                          input_policy);
        }
        position.advance();
    }
    // D columns of v, 64 to each state warpgroup.
    __device__ __forceinline__ void load_values(const CUtensorMap& map, const Piece& p, uint32_t c) {
#pragma unroll
        for (int group = 0; group < Block::groups; ++group) {
            const auto pipe = block.v(group);
            pipe.producer_acquire(v);
            pipe.producer_expect(v, sizeof(TilePair));
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                ptx::tma_load(pipe.at(v) + i * tile_bytes, map, pipe.full(v), 64 * group + 32 * i, p.token(c), p.h, p.b,
                              input_policy);
            }
        }
        v.advance();
    }
    __device__ __forceinline__ void run() {
        block.each_piece([&](const Piece& p, uint32_t back, uint32_t) {
            const Tensors& map = block.maps.of[p.problem];
#pragma unroll 1
            for (uint32_t i = 1; i <= back; ++i) {
                load_rows(block.k(), k, map.k, p, p.first - i);
                load_values(map.v, p, p.first - i);
            }
            if constexpr (!stores_states) {
#pragma unroll 1
                for (uint32_t c = p.first; c < p.last; ++c) {
                    load_rows(block.q(), q, map.q, p, c);
                    load_rows(block.k(), k, map.k, p, c);
                    load_values(map.v, p, c);
                }
            }
        });
    }
};

}  // namespace causeway::gpu::la
