// Float32 numbers as sums of two BFloat16: x ≈ hi + lo, with a relative error of 2^-17.
#pragma once

#include "gpu/kit/pack.cuh"

namespace causeway::gpu {

// The two halves of a pair of BFloat16 as Float32: BFloat16 is the upper half of Float32.
__device__ __forceinline__ float lower_bf16(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float upper_bf16(uint32_t pair) { return __uint_as_float(pair & 0xFFFF0000u); }

// Two numbers at a time.
__device__ __forceinline__ void to_hi_lo(float x, float y, uint32_t& hi, uint32_t& lo) {
    hi = pack(__nv_bfloat16{}, x, y);
    lo = pack(__nv_bfloat16{}, x - lower_bf16(hi), y - upper_bf16(hi));
}
__device__ __forceinline__ float2 from_hi_lo(uint32_t hi, uint32_t lo) {
    return {lower_bf16(hi) + lower_bf16(lo), upper_bf16(hi) + upper_bf16(lo)};
}

}  // namespace causeway::gpu
