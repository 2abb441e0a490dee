// Sums over the threads of a block, at most 1024.
#pragma once

#include "gpu/kit/warp.cuh"

namespace causeway::gpu::models {

// In shared memory.
struct BlockSums {
    float warp[32];

    // The sum of x over all threads, the same in each of them.
    __device__ __forceinline__ float all(float x) {
        const int warps = static_cast<int>(blockDim.x) / 32, lane = threadIdx.x % 32;
        x = sum_of_warp(x);
        __syncthreads();
        if (lane == 0) warp[threadIdx.x / 32] = x;
        __syncthreads();
        return sum_of_warp(lane < warps ? warp[lane] : 0.0f);
    }
};

}  // namespace causeway::gpu::models
