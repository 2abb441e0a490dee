// Pairs of 16-bit elements in one 32-bit register, as the tensor cores take their operands. The first argument only
// names the element type: pack(E{}, x, y).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace causeway::gpu {

// Rounds both to nearest even; `lo` is in the lower half, the element of the lower index.
__device__ __forceinline__ uint32_t pack(__nv_bfloat16, float lo, float hi) {
    const __nv_bfloat162 x = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<const uint32_t*>(&x);
}
__device__ __forceinline__ uint32_t pack(__half, float lo, float hi) {
    const __half2 x = __floats2half2_rn(lo, hi);
    return *reinterpret_cast<const uint32_t*>(&x);
}

// The lower half as x, the upper one as y; exact.
__device__ __forceinline__ float2 unpack(__nv_bfloat16, uint32_t x) {
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&x));
}
__device__ __forceinline__ float2 unpack(__half, uint32_t x) {
    return __half22float2(*reinterpret_cast<const __half2*>(&x));
}

}  // namespace causeway::gpu
