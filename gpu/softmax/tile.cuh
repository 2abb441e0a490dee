// Tiles of 16-bit rows in shared memory, and their products on the tensor cores that every device from sm_80 on has.
//
// Row i of a tile has D elements in pieces of 16 bytes, piece p at p ^ (i % 8): eight rows of one piece lie in
// different banks.
#pragma once

#include "gpu/kit/async_copy.cuh"
#include "gpu/kit/mma.cuh"
#include "gpu/kit/pack.cuh"
#include "gpu/kit/ptx.cuh"

namespace causeway::gpu::softmax {

// Rows [0, rows) from row(i): `columns` elements, then zeros to D; zeros from row `count` on. With `aligned` not there
// before cp_async_wait and a barrier.
template <class E, int D, int rows, int threads, class Row>
__device__ __forceinline__ void load_rows(E* to, int columns, bool aligned, int32_t count, Row&& row) {
    constexpr int pieces = D / 8;
    static_assert(rows * pieces % threads == 0);
    const uint32_t address = ptx::shared_address(to);
#pragma unroll
    for (int n = 0; n < rows * pieces / threads; ++n) {
        const int at = threadIdx.x + n * threads, i = at / pieces, p = at % pieces, place = i * D + (p ^ (i % 8)) * 8;
        const bool real = i < count && 8 * p < columns;
        const E* from = row(real ? i : 0) + (real ? 8 * p : 0);
        if (aligned) {
            cp_async<16>(address + 2 * place, from, real);
        } else {
#pragma unroll
            for (int e = 0; e < 8; ++e) to[place + e] = real && 8 * p + e < columns ? from[e] : E(0.0f);
        }
    }
}

// Rows first ... first + 15, columns 16 ks ... as an A operand.
template <int D>
__device__ __forceinline__ void load_a(uint32_t (&a)[4], uint32_t tile, int first, int ks) {
    const int lane = threadIdx.x % 32, i = first + lane % 16;
    ptx::ldmatrix_x4(a, tile + i * (2 * D) + ((2 * ks + lane / 16) ^ (i % 8)) * 16);
}

// S[16×8NS] += A Bᵀ, columns 16 ks ... of both: A as load_a left it, B the rows first ... of a tile.
template <class E, int D, int NS>
__device__ __forceinline__ void add_scores(float (&s)[NS][4], const uint32_t (&a)[4], uint32_t tile, int first,
                                           int ks) {
    const int lane = threadIdx.x % 32, row = first + lane / 16 * 8 + lane % 8, piece = 2 * ks + lane / 8 % 2;
#pragma unroll
    for (int n = 0; n < NS; n += 2) {
        uint32_t b[4];
        const int i = row + 8 * n;
        ptx::ldmatrix_x4(b, tile + i * (2 * D) + (piece ^ (i % 8)) * 16);
        ptx::mma_m16n8k16<E>(s[n], a, b[0], b[1]);
        ptx::mma_m16n8k16<E>(s[n + 1], a, b[2], b[3]);
    }
}

// O[16×8NO] += P B: P rounded to the type of B, B the rows first ... of a tile, columns column0 ...
template <class E, int D, int NS, int NO>
__device__ __forceinline__ void add_weighted(float (&o)[NO][4], const float (&p)[NS][4], uint32_t tile, int first,
                                             int column0 = 0) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int ks = 0; ks < NS / 2; ++ks) {
        const float(&x)[4] = p[2 * ks], (&y)[4] = p[2 * ks + 1];
        const uint32_t a[4] = {pack(E{}, x[0], x[1]), pack(E{}, x[2], x[3]), pack(E{}, y[0], y[1]),
                               pack(E{}, y[2], y[3])};
        const int i = first + 16 * ks + lane % 16;
#pragma unroll
        for (int n = 0; n < NO; n += 2) {
            uint32_t b[4];
            ptx::ldmatrix_x4_trans(b, tile + i * (2 * D) + ((column0 / 8 + n + lane / 16) ^ (i % 8)) * 16);
            ptx::mma_m16n8k16<E>(o[n], a, b[0], b[1]);
            ptx::mma_m16n8k16<E>(o[n + 1], a, b[2], b[3]);
        }
    }
}

// Two elements side by side, `width` the length of the row.
template <class E>
__device__ __forceinline__ void store_pair(E* row, int column, int width, float x, float y) {
    E* to = row + column;
    if (column + 1 < width && reinterpret_cast<uintptr_t>(to) % 4 == 0) {
        *reinterpret_cast<uint32_t*>(to) = pack(E{}, x, y);
        return;
    }
    if (column < width) to[0] = static_cast<E>(x);
    if (column + 1 < width) to[1] = static_cast<E>(y);
}

}  // namespace causeway::gpu::softmax
