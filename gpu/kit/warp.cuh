// What the 32 lanes of a warp work out together.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>

namespace causeway::gpu {

constexpr unsigned all_lanes = 0xFFFFFFFF;

// The sum and the largest of the lanes' values: the same, to the bit, in all lanes.
__device__ __forceinline__ float sum_of_warp(float x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(all_lanes, x, step);
    return x;
}
__device__ __forceinline__ float max_of_warp(float x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(all_lanes, x, step));
    return x;
}

// x·y of n elements, in all lanes. Not unrolled: it stands in functions that are seldom called, and whose size moves
// the kernels around them (flash attention of width 64 took 4 % more time).
template <class E, class F>
__device__ __forceinline__ float dot_of_warp(const E* x, const F* y, int n) {
    float sum = 0;
#pragma unroll 1
    for (int e = threadIdx.x % 32; e < n; e += 32) sum = fmaf(static_cast<float>(x[e]), static_cast<float>(y[e]), sum);
    return sum_of_warp(sum);
}

// f(i) by a whole warp for first <= i < last, the warps of the thread block taking turns.
template <class F>
__device__ __forceinline__ void each_by_warps(std::int32_t first, std::int32_t last, F&& f) {
    const auto warps = static_cast<std::int32_t>(blockDim.x) / 32;
    for (std::int32_t i = first + static_cast<std::int32_t>(threadIdx.x) / 32; i < last; i += warps) f(i);
}

}  // namespace causeway::gpu
