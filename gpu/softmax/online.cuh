// The online softmax (Milakov and Gimelshein 2018): while keys pass by, a row keeps the largest score so far, the sum
// of its weights and the weighted sum of values, and multiplies both by `back` <= 1 when a larger score comes. Weights
// are powers of two: scores are q·k times |scale| · log2 e.
#pragma once

#include <numbers>

#include "gpu/kit/ptx.cuh"
#include "gpu/kit/warp.cuh"

namespace causeway::gpu::softmax {

constexpr float minus_infinity = -__builtin_huge_valf(), ln2 = std::numbers::ln2_v<float>;

// Over the four lanes that hold one row of an accumulator of the tensor cores.
__device__ __forceinline__ float max_of_four(float x) {
    x = fmaxf(x, __shfl_xor_sync(all_lanes, x, 1));
    return fmaxf(x, __shfl_xor_sync(all_lanes, x, 2));
}
__device__ __forceinline__ float sum_of_four(float x) {
    x += __shfl_xor_sync(all_lanes, x, 1);
    return x + __shfl_xor_sync(all_lanes, x, 2);
}
// Over the sixteen lanes of half a warp.
__device__ __forceinline__ float max_of_sixteen(float x) {
#pragma unroll
    for (int step = 8; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(all_lanes, x, step));
    return x;
}
__device__ __forceinline__ float sum_of_sixteen(float x) {
#pragma unroll
    for (int step = 8; step > 0; step /= 2) x += __shfl_xor_sync(all_lanes, x, step);
    return x;
}

// What is subtracted from the scores times the scale, where m is the largest score, not yet times the scale: rounded,
// never part of a fused multiply-add, so that as long as m stays, what was summed before is multiplied by 1 and not by
// 1 + rounding. -Inf must not be subtracted from itself.
__device__ __forceinline__ float shift_of(float m, float scale) {
    return m == minus_infinity ? 0.0f : __fmul_rn(m, scale);
}

// Of a row with the largest score m, already times the scale, and the sum of weights l: returns 1 / l and sets lse2 to
// m + log2 l, the log-sum-exp in base 2. They are 0 and -Inf where the row saw no key.
__device__ __forceinline__ float finish(float m, float l, float& lse2) {
    lse2 = l > 0 ? m + log2f(l) : l == 0 ? minus_infinity : l;  // a NaN stays
    return l == 0 ? 0.0f : 1.0f / l;
}

}  // namespace causeway::gpu::softmax
