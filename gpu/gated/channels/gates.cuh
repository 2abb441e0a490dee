// Gates as the kernels of a gate per channel take them, and the sub-blocks of a chunk's scores.
#pragma once

#include <cuda_runtime.h>

namespace causeway::gpu::channels {

// The logarithm of a gate, base 2, cut off at 2^-160, which is 0 in Float32, so that sums of them stay numbers. NaN
// stays.
__device__ __forceinline__ float gate_base_2(float g) {
    constexpr float log2_e = 1.4426950408889634f, least = -160.0f;
    const float x = g * log2_e;
    return x < least ? least : x;
}

// What stands for a β of 0 in the gradient, which divides by it: whatever is written with it is lost beside any number.
constexpr float least_beta = 0x1p-100f;

// Sub-block I >= J of the i-th of the ten.
__device__ __forceinline__ void block_of(int i, int& I, int& J) {
    I = i < 1 ? 0 : i < 3 ? 1 : i < 6 ? 2 : 3;
    J = i - I * (I + 1) / 2;
}

}  // namespace causeway::gpu::channels
