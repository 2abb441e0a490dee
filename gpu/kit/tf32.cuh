// Products of one warp on tensor cores in Float32: operands as sums of two TF32, x = hi + lo, and a product as
// lo·hi + hi·lo + hi·hi, at most 1.2e-6 of it wrong (lo·lo, and lo has 2^-21 more than TF32 holds).
//
// With g = lane / 4 and t = lane % 4, who has what of a 16×8 tile is said in mma.cuh. What comes of a product, [g][2t],
// [g][2t + 1] and the same of row g + 8, can be the left operand of the next with no exchange among lanes: its columns
// 2t and 2t + 1 take the places t and t + 4 of the sum, and so must the rows of the right operand ("by pairs").
//
// Tensor cores cut sums off where FMA units round them: a sum over many tokens is not kept in an accumulator for long,
// but added up by FMA units every so many tokens.
#pragma once

#include "gpu/kit/mma.cuh"

namespace causeway::gpu::tf32 {

// x as hi + lo, both read as TF32, hi the nearest. A NaN stays one in lo, and an infinity becomes one.
struct HiLo {
    uint32_t hi, lo;
    explicit __device__ __forceinline__ HiLo(float x) {
        constexpr uint32_t half_step = 1u << 12, kept = ~((1u << 13) - 1);
        hi = (__float_as_uint(x) + half_step) & kept;
        lo = __float_as_uint(x - __uint_as_float(hi));
    }
};

// n numbers of an operand: 4 of a left one, 2 of a right one.
template <int n>
struct Fragment {
    uint32_t hi[n], lo[n];
    __device__ __forceinline__ void set(int i, float x) {
        const HiLo split(x);
        hi[i] = split.hi, lo[i] = split.lo;
    }
};
using Left = Fragment<4>;
using Right = Fragment<2>;

// Left operands: at(row, column) of a 16×8 tile, and the result of a product, by pairs.
template <class At>
__device__ __forceinline__ Left left(const At& at) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    Left a;
    a.set(0, at(g, t)), a.set(1, at(g + 8, t)), a.set(2, at(g, t + 4)), a.set(3, at(g + 8, t + 4));
    return a;
}
__device__ __forceinline__ Left left_of(const float (&x)[4]) {
    Left a;
    a.set(0, x[0]), a.set(1, x[2]), a.set(2, x[1]), a.set(3, x[3]);
    return a;
}
__device__ __forceinline__ Left left_of(float4 x) {
    const float of[4] = {x.x, x.y, x.z, x.w};
    return left_of(of);
}

// Right operands: at(row, column) of an 8×8 tile, and two numbers that the lane has found itself.
template <class At>
__device__ __forceinline__ Right right(const At& at) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    Right b;
    b.set(0, at(t, g)), b.set(1, at(t + 4, g));
    return b;
}
__device__ __forceinline__ Right right_of(float first, float second) {
    Right b;
    b.set(0, first), b.set(1, second);
    return b;
}

// d[i][j] += a[i] b[j]: the three products of one sum after those of the others, so that none waits for its own.
template <int m, int n>
__device__ __forceinline__ void multiply(float (&d)[n][m][4], const Left (&a)[m], const Right (&b)[n]) {
#pragma unroll
    for (int product = 0; product < 3; ++product) {
#pragma unroll
        for (int j = 0; j < n; ++j) {
#pragma unroll
            for (int i = 0; i < m; ++i)
                ptx::mma_m16n8k8_tf32(d[j][i], product == 0 ? a[i].lo : a[i].hi, product == 1 ? b[j].lo : b[j].hi);
        }
    }
}
template <int n>
__device__ __forceinline__ void multiply(float (&d)[n][4], const Left& a, const Right (&b)[n]) {
#pragma unroll
    for (int product = 0; product < 3; ++product) {
#pragma unroll
        for (int j = 0; j < n; ++j)
            ptx::mma_m16n8k8_tf32(d[j], product == 0 ? a.lo : a.hi, product == 1 ? b[j].lo : b[j].hi);
    }
}
__device__ __forceinline__ void multiply(float (&d)[4], const Left& a, const Right& b) {
    ptx::mma_m16n8k8_tf32(d, a.lo, b.hi);
    ptx::mma_m16n8k8_tf32(d, a.hi, b.lo);
    ptx::mma_m16n8k8_tf32(d, a.hi, b.hi);
}

// The place of column c of a row in shared memory whose rows are multiples of 32 floats. Lanes of a right operand read
// different banks, whether its rows are consecutive (0 to 3, or 4 to 7) or every second one, and so do those that read
// pairs of columns of four consecutive rows. Rows eight apart have their columns in the same places.
__device__ __forceinline__ int swizzled(int row, int c) { return c ^ ((row >> 1 ^ row << 1) & 3) << 3; }

}  // namespace causeway::gpu::tf32
