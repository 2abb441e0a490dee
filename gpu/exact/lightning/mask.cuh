// The decayed causal mask, and the tiles of scores that it is put on.
#pragma once

#include "gpu/exact/lightning/decay.cuh"
#include "gpu/kit/swizzle.cuh"

namespace causeway::gpu::la {

// A score tile is 64 queries by two times 32 keys, rows of 64 bytes in the 64-byte swizzle: bytes of a half, and where
// eight keys of a row of a half are.
constexpr uint32_t half_tile = 64 * 64;
__device__ __forceinline__ uint32_t score_at(int row, int eighth) { return swizzle_64(row, eighth); }

// The mask of a score tile of 64 queries and `keys` keys in the accumulators of one warpgroup: γ^(i-j) where query i
// sees key j; and for pairs of 16-bit numbers, ones where it does: what is not seen becomes 0, NaN too.
template <int keys>
struct Mask {
    float weight[keys / 2];
    uint32_t seen[keys / 4];

    __device__ __forceinline__ void set(const Piece& p, int first_key, int warp, int lane) {
        const int row = 16 * warp + lane / 4, col = first_key + 2 * (lane % 4);
#pragma unroll
        for (int i = 0; i < keys / 2; ++i) {
            const int n = row + (i % 4 / 2) * 8 - (8 * (i / 4) + col + i % 2), back = p.reversed ? -n : n;
            weight[i] = power(p.head.log2_gamma, max(back, 0));
            const uint32_t ones = back < 0 ? 0 : 0xFFFFu << (i % 2 * 16);
            seen[i / 2] = i % 2 ? seen[i / 2] | ones : ones;
        }
    }
};

}  // namespace causeway::gpu::la
