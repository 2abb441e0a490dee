// A tile of 64 × 64 Float32 in shared memory, and the part of it that one thread has in registers.
#pragma once

#include "gpu/exact/lightning/bf16x3/hi_lo.cuh"
#include "gpu/exact/lightning/bf16x3/layout.cuh"

namespace causeway::gpu::la {

// Where element (token, column) of a Float32 tile of 64 columns lies.
__device__ __forceinline__ uint32_t value_at(int token, int column) {
    return column / 32 * tile_bytes + swizzle_128(token, column % 32 / 4) + column % 4 * 4;
}

// The elements of a transposed 64 × 64 tile that one thread has, as an accumulator or as A operands: element i is token
// 8(i/4) + 2(lane % 4) + i % 2 of column 16 warp + lane/4 + 8(i/2 % 2). The 32 lanes of an access are in 32 banks.
struct Elements {
    uint32_t at[4];

    __device__ __forceinline__ Elements(int warp, int lane) {
#pragma unroll
        for (int i = 0; i < 4; ++i) at[i] = value_at(2 * (lane % 4) + i % 2, 16 * warp + lane / 4 + 8 * (i / 2));
    }
    __device__ __forceinline__ void load(uint32_t tile, float (&x)[32]) const {
#pragma unroll
        for (int i = 0; i < 32; ++i) x[i] = ptx::ld_shared_f32(tile + at[i % 4] + i / 4 * 8 * 128);
    }
    __device__ __forceinline__ void store(uint32_t tile, const float (&x)[32]) const {
#pragma unroll
        for (int i = 0; i < 32; ++i) ptx::st_shared(tile + at[i % 4] + i / 4 * 8 * 128, x[i]);
    }
};

// As Recompute does it; what the state has given is kept in the thread's own memory.
struct Bf16x3Recompute {
    float kept[32];

    __device__ __forceinline__ void keep(const float (&o)[32]) {
#pragma unroll
        for (int i = 0; i < 32; ++i) kept[i] = o[i];
    }
    // `values` is the tile of these 64 columns, `scores` the score tile.
    __device__ __forceinline__ void run(const Piece& p, float (&o)[32], uint32_t values, uint32_t scores, int warp,
                                        int lane) {
#pragma unroll 1
        for (int e = 0; e < 32; ++e) {
            const int i = 8 * (e / 4) + 2 * (lane % 4) + e % 2, column = 16 * warp + lane / 4 + e % 4 / 2 * 8;
            float sum = kept[e];
#pragma unroll 1
            for (int j = p.reversed ? i : 0; j < (p.reversed ? 64 : i + 1); ++j) {
                const uint32_t at = scores + j / 32 * half_pair + score_at(i, j % 32 / 8) + j % 8 / 2 * 4;
                const float2 pair = from_hi_lo(ptx::ld_shared_b32(at), ptx::ld_shared_b32(at + half_tile));
                sum = fmaf(j % 2 ? pair.y : pair.x, ptx::ld_shared_f32(values + value_at(j, column)), sum);
            }
            kept[e] = sum;
        }
#pragma unroll
        for (int i = 0; i < 32; ++i) o[i] = isfinite(o[i]) ? o[i] : kept[i];
        __syncwarp();  // other lanes have read the values that these outputs replace
    }
};

}  // namespace causeway::gpu::la
