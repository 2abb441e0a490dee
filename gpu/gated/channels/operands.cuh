// Operands of mma.sync from matrices in shared memory, rows of `pitch` bytes, by ldmatrix.
#pragma once

#include "gpu/gated/channels/part.hpp"
#include "gpu/kit/async_copy.cuh"
#include "gpu/kit/mma.cuh"
#include "gpu/kit/pack.cuh"
#include "gpu/kit/ptx.cuh"

namespace causeway::gpu::channels {

using E = __nv_bfloat16;

// Operand a, rows m ... m + 15 and columns k ... k + 15 of a matrix [m][k].
__device__ __forceinline__ void load_a(uint32_t (&a)[4], uint32_t at, uint32_t pitch, int m, int k, int lane) {
    ptx::ldmatrix_x4(a,
                     at + static_cast<uint32_t>(m + lane % 16) * pitch + static_cast<uint32_t>(k + lane / 16 * 8) * 2);
}
// The same of a matrix [k][m].
__device__ __forceinline__ void load_a_transposed(uint32_t (&a)[4], uint32_t at, uint32_t pitch, int m, int k,
                                                  int lane) {
    ptx::ldmatrix_x4_trans(a, at + static_cast<uint32_t>(k + lane % 8 + lane / 16 * 8) * pitch +
                                  static_cast<uint32_t>(m + lane / 8 % 2 * 8) * 2);
}
// Operands b of two products side by side, b[0], b[1] for columns n ... n + 7 and b[2], b[3] for the next eight, of a
// matrix [k][n].
__device__ __forceinline__ void load_b(uint32_t (&b)[4], uint32_t at, uint32_t pitch, int k, int n, int lane) {
    ptx::ldmatrix_x4_trans(
        b, at + static_cast<uint32_t>(k + lane % 16) * pitch + static_cast<uint32_t>(n + lane / 16 * 8) * 2);
}
// The same of a matrix [n][k].
__device__ __forceinline__ void load_b_transposed(uint32_t (&b)[4], uint32_t at, uint32_t pitch, int k, int n,
                                                  int lane) {
    ptx::ldmatrix_x4(b, at + static_cast<uint32_t>(n + lane % 8 + lane / 16 * 8) * pitch +
                            static_cast<uint32_t>(k + lane / 8 % 2 * 8) * 2);
}
// The first three of tiles of so many columns.
template <int columns>
__device__ __forceinline__ void load_a(uint32_t (&a)[4], uint32_t tile, int m, int k, int lane) {
    ptx::ldmatrix_x4(a, tile + tile_at<columns>(m + lane % 16, k + lane / 16 * 8));
}
template <int columns>
__device__ __forceinline__ void load_a_transposed(uint32_t (&a)[4], uint32_t tile, int m, int k, int lane) {
    ptx::ldmatrix_x4_trans(a, tile + tile_at<columns>(k + lane % 8 + lane / 16 * 8, m + lane / 8 % 2 * 8));
}
template <int columns>
__device__ __forceinline__ void load_b(uint32_t (&b)[4], uint32_t tile, int k, int n, int lane) {
    ptx::ldmatrix_x4_trans(b, tile + tile_at<columns>(k + lane % 16, n + lane / 16 * 8));
}
// d[16×16] += a b, as two of 16×8.
__device__ __forceinline__ void multiply(float (&d)[2][4], const uint32_t (&a)[4], const uint32_t (&b)[4]) {
    ptx::mma_m16n8k16<E>(d[0], a, b[0], b[1]);
    ptx::mma_m16n8k16<E>(d[1], a, b[2], b[3]);
}

// Two elements of 16 bits of a row at an even column, zeros from `width` on.
__device__ __forceinline__ uint32_t load_pair(const char* row, int column, int width) {
    const auto at = [&](int c) -> uint32_t {
        return c < width ? *reinterpret_cast<const uint16_t*>(row + c * 2) : uint16_t{0};
    };
    return at(column) | at(column + 1) << 16;
}

// Starts the copy of `rows` rows of `columns` elements to a matrix in shared memory; rows from n on and columns from
// `width` on become zeros. whole: rows are pieces of 16 bytes, aligned.
template <int rows, int columns, int threads>
__device__ __forceinline__ void copy_rows(unsigned char* to, uint32_t pitch, const char* from, int64_t token_bytes,
                                          int n, int width, bool whole) {
    if (whole) {
        constexpr int pieces = columns / 8;
        for (int i = threadIdx.x; i < rows * pieces; i += threads) {
            const int t = i / pieces, c = i % pieces;
            const bool there = t < n && c * 8 < width;
            cp_async<16>(to + t * pitch + c * 16, there ? from + t * token_bytes + c * 16 : from, there);
        }
        return;
    }
    for (int i = threadIdx.x; i < rows * columns / 2; i += threads) {
        const int t = i / (columns / 2), c = i % (columns / 2) * 2;
        *reinterpret_cast<uint32_t*>(to + t * pitch + c * 2) = t < n ? load_pair(from + t * token_bytes, c, width) : 0u;
    }
}

}  // namespace causeway::gpu::channels
