// Where elements of a tile lie in shared memory as TMA writes it and wgmma reads it.
//
// A tile is 64 rows (tokens) of 128 bytes; flash attention has tiles of 128 rows. In the 128-byte swizzle, piece p of
// 16 bytes of row t is at place p ^ t % 8 of that row: eight rows that are read at the same piece meet in eight
// different groups of banks. In the 64-byte swizzle rows have 64 bytes, and piece p of row t is at place p ^ t / 2 % 4.
#pragma once

#include <cstdint>

#include "gpu/kit/limits.hpp"

namespace causeway::gpu {

// 64 rows of 128 bytes: 64 columns of 16-bit elements, or 32 of Float32.
constexpr uint32_t tile_bytes = 64 * 128;
struct alignas(limits::swizzle_atom) Tile {
    uint8_t bytes[tile_bytes];
};

// The address rounded up to where a swizzled tile may begin.
__device__ __forceinline__ uint32_t round_up_to_swizzle_atom(uint32_t address) {
    return (address + limits::swizzle_atom - 1) & ~(limits::swizzle_atom - 1);
}

// Bytes from the start of a tile to piece `piece` of 16 bytes of a row.
__device__ __forceinline__ uint32_t swizzle_128(int row, int piece) { return row * 128 + ((piece ^ row % 8) * 16); }
__device__ __forceinline__ uint32_t swizzle_64(int row, int piece) { return row * 64 + ((piece ^ row / 2 % 4) * 16); }

// For ldmatrix_x4_trans and stmatrix_x4_trans between a tile whose rows are tokens and a warp that owns 16 of its
// columns: the byte of the row that this lane addresses. Matrices 0 and 1 are tokens 0 ... 7 in the warp's first and
// last eight columns, matrices 2 and 3 the same of tokens 8 ... 15. Add 16 · 128 · i for the tokens from 16 i on.
__device__ __forceinline__ uint32_t transposed_rows(int warp, int lane) {
    return (lane % 8 + 8 * (lane / 16)) * 128 + (((2 * warp + lane / 8 % 2) ^ (lane % 8)) * 16);
}

}  // namespace causeway::gpu
