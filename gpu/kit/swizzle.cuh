// Where elements of a tile lie in shared memory as TMA writes it and wgmma reads it.
//
// A tile is 64 rows (tokens) of 128 bytes. In the 128-byte swizzle, piece p of 16 bytes of row t is at place p ^ t % 8
// of that row: eight rows that are read at the same piece meet in eight different groups of banks. In the 64-byte
// swizzle rows have 64 bytes, and piece p of row t is at place p ^ t / 2 % 4.
#pragma once

#include <cstdint>

#include "gpu/kit/limits.hpp"

namespace causeway::gpu {

// 64 rows of 128 bytes: 64 columns of 16-bit elements, or 32 of Float32.
constexpr uint32_t tile_bytes = 64 * 128;

// The address rounded up to where a swizzled tile may begin.
__device__ __forceinline__ uint32_t round_up_to_swizzle_atom(uint32_t address) {
    return (address + limits::swizzle_atom - 1) & ~(limits::swizzle_atom - 1);
}

// Bytes from the start of a tile to piece `piece` of 16 bytes of a row.
__device__ __forceinline__ uint32_t swizzle_128(int row, int piece) { return row * 128 + ((piece ^ row % 8) * 16); }
__device__ __forceinline__ uint32_t swizzle_64(int row, int piece) { return row * 64 + ((piece ^ row / 2 % 4) * 16); }

// Where this lane's row of four 8×8 matrices lies that a warp moves transposed (ldmatrix_x4_trans, stmatrix_x4_trans)
// between a tile of tokens and its 16 columns of it.
__device__ __forceinline__ uint32_t transposed_rows(int warp, int lane) {
    return (lane % 8 + 8 * (lane / 16)) * 128 + (((2 * warp + lane / 8 % 2) ^ (lane % 8)) * 16);
}

}  // namespace causeway::gpu
