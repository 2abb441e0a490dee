// The converters of la_bf16x3: q and k arrive as Float32 and become hi and lo where they lie.
#pragma once

#include "gpu/exact/lightning/bf16x3/block.cuh"
#include "gpu/exact/lightning/bf16x3/hi_lo.cuh"

namespace causeway::gpu::la {

// Converts a tile of R columns in place, `converters` warps together. A step of a warp, `at_once` of them loaded at
// once, is eight tokens of 64 columns, of which a thread has eight columns of either half of one token. Eight threads
// that access shared memory at once have two tokens, t and t ^ 5: in the swizzle their pieces of 16 bytes, every other
// one of Float32 or four in a row of hi or lo, never meet in a bank.
template <int R, int converters, int at_once>
__device__ __forceinline__ void convert_tile(uint32_t tile, int warp, int lane) {
    constexpr int steps = R / 64 * 8;
    static_assert(at_once == 1 || steps % (at_once * converters) == 0);
    const int token = lane / 8 ^ lane / 4 % 2 * 5, piece = lane % 4;
    const uint32_t row = tile + token * 128, from = row + (2 * piece ^ token) * 16, to = row + (piece ^ token) * 16;
#pragma unroll 1
    for (int s = warp; s < steps; s += at_once * converters) {
        float4 x[at_once][4];
        uint32_t at[at_once];
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
            const int step = s + i * converters;
            at[i] = step / 8 * sizeof(TilePair) + step % 8 * 1024;
#pragma unroll
            for (int j = 0; j < 4; ++j)
                x[i][j] = ptx::ld_shared_f32x4((from ^ j % 2 * 16) + at[i] + j / 2 * tile_bytes);
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float4 a = x[i][2 * half], b = x[i][2 * half + 1];
                uint32_t hi[4], lo[4];
                to_hi_lo(a.x, a.y, hi[0], lo[0]), to_hi_lo(a.z, a.w, hi[1], lo[1]);
                to_hi_lo(b.x, b.y, hi[2], lo[2]), to_hi_lo(b.z, b.w, hi[3], lo[3]);
                ptx::st_shared((to ^ half * 64) + at[i], hi);
                ptx::st_shared((to ^ half * 64) + at[i] + tile_bytes, lo);
            }
        }
    }
}

// The share of warp `converter`, once the tile is there.
template <int R, int converters, int at_once, class Pipe>
__device__ __forceinline__ void convert_share(const Pipe& pipe, const typename Pipe::State& position, int converter,
                                              int lane) {
    pipe.consumer_wait(position);
    convert_tile<R, converters, at_once>(pipe.at(position), converter, lane);
    ptx::fence_proxy_async();
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(pipe.ready(position));
}

// Warp `converter` of those that convert k.
template <int R, int D, bool stores_states, bool bidirectional>
__device__ __forceinline__ void convert_role(const Bf16x3Block<R, D, stores_states, bidirectional>& block,
                                             int converter) {
    using Block = Bf16x3Block<R, D, stores_states, bidirectional>;
    const auto k = block.k();
    PipelineState<Block::Shared::stages> position;
    block.each_piece([&](const Piece& p, uint32_t back, uint32_t) {
#pragma unroll 1
        for (uint32_t i = 0; i < back + p.last - p.first; ++i) {
            convert_share<R, Block::k_converters, 1>(k, position, converter, block.lane);
            position.advance();
        }
    });
}

}  // namespace causeway::gpu::la
