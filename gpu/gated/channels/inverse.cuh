// The inverse of I + A, A = diag(β) M of a chunk, strictly lower triangular, 64×64 in Float32, by blocks of 16: those
// on the diagonal by substitution, then a column of blocks to a warp, on tensor cores with operands of tf32. README.md
// has the letters.
#pragma once

#include "gpu/gated/channels/part.hpp"
#include "gpu/kit/mma.cuh"
#include "gpu/kit/pack.cuh"
#include "gpu/kit/ptx.cuh"

namespace causeway::gpu::channels {

// A row of A is so many elements: eight rows of pairs read at one column meet in different banks. Blocks below the
// diagonal are rounded to tf32 as they are written, and so is what comes of those on it.
using Triangle = float[C][C + 8];

// The block (I, I) of A becomes its part of the inverse, by one warp, a column to a lane.
__device__ __forceinline__ void invert_diagonal(Triangle& A, int I, int lane) {
    const int first = I * 16, column = lane % 16;
    float x[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        float sums[4] = {i == column ? 1.0f : 0.0f};  // four, that do not wait for one another
#pragma unroll
        for (int m = 0; m < i; m += 4) {
            const float4 f = *reinterpret_cast<const float4*>(&A[first + i][first + m]);
            const float row[4] = {f.x, f.y, f.z, f.w};
#pragma unroll
            for (int k = 0; k < 4; ++k)
                if (m + k < i) sums[k] = fmaf(-row[k], x[m + k], sums[k]);
        }
        x[i] = i < column ? 0.0f : (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
    __syncwarp();
    if (lane < 16) {
#pragma unroll
        for (int i = 0; i < 16; ++i) A[first + i][first + column] = ptx::round_to_tf32(x[i]);
    }
}

// A 16×16 block Y, transposed: an accumulator of 16×8 for its rows 0 ... 7, another for 8 ... 15. The rows of the
// accumulator are columns of Y.
using TransposedBlock = float[2][4];

// d += Y Xᵀ, where X is the block of A at (row, column). An accumulator is an operand as it lies, when the eight
// columns of it that one product sums over are taken in the order 0, 2, 4, 6, 1, 3, 5, 7: so rows of Xᵀ are read in
// pairs.
__device__ __forceinline__ void add_product(TransposedBlock& d, const TransposedBlock& Y, const Triangle& A, int row,
                                            int column, int lane) {
    const auto tf32 = [](float x) { return __float_as_uint(ptx::round_to_tf32(x)); };
#pragma unroll
    for (int k = 0; k < 2; ++k) {
        const uint32_t y[4] = {tf32(Y[k][0]), tf32(Y[k][2]), tf32(Y[k][1]), tf32(Y[k][3])};
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            const float2 x =
                *reinterpret_cast<const float2*>(&A[row + 8 * n + lane / 4][column + 8 * k + lane % 4 * 2]);
            ptx::mma_m16n8k8_tf32(d[n], y, __float_as_uint(x.x), __float_as_uint(x.y));
        }
    }
}

// Column J of blocks T_IJ of the inverse, I >= J, by one warp, the blocks on the diagonal being inverted:
// T_IJ = -T_II Σ_{J<=m<I} A_Im T_mJ. Zeros above them. Every warp takes the steps of J = 0, whose chain the others
// would wait for: without branches loads are ahead of the products.
__device__ __forceinline__ void invert_column(TransposedBlock (&T)[blocks], const Triangle& A, int J, int lane) {
#pragma unroll
    for (int I = 0; I < blocks; ++I) {
        TransposedBlock sum = {}, out = {};
#pragma unroll
        for (int m = 0; m < I; ++m) add_product(sum, T[m], A, I * 16, m * 16, lane);
        if (I > 0) add_product(out, sum, A, I * 16, I * 16, lane);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const float own = A[I * 16 + 8 * n + lane % 4 * 2 + e % 2][I * 16 + lane / 4 + 8 * (e / 2)];
                T[I][n][e] = I < J ? 0.0f : I == J ? own : -out[n][e];
            }
        }
    }
}

// A block in BFloat16 by stmatrix, whose lanes get the place of a piece of a row each: at(row, column) of the block.
// by0, by1: factors of this lane's columns, lane / 4 and 8 further right.
template <class At>
__device__ __forceinline__ void store_block(const TransposedBlock& T, float by0, float by1, int lane, At&& at) {
    constexpr __nv_bfloat16 e{};
    ptx::stmatrix_x4_trans(at(lane % 8 + 8 * (lane / 16), lane / 8 % 2 * 8), pack(e, T[0][0] * by0, T[0][1] * by0),
                           pack(e, T[0][2] * by1, T[0][3] * by1), pack(e, T[1][0] * by0, T[1][1] * by0),
                           pack(e, T[1][2] * by1, T[1][3] * by1));
}

}  // namespace causeway::gpu::channels
