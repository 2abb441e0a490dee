// Sigmoids and what is made of them, without the exponential of a positive number.
#pragma once

namespace causeway::gpu::around {

__device__ __forceinline__ float sigmoid(float x) {
    const float e = expf(-fabsf(x));
    return (x < 0 ? e : 1.0f) / (1.0f + e);
}
// log(1 + e^x)
__device__ __forceinline__ float softplus(float x) { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }

struct GateAndSlope {
    float value, slope;
};
// silu(x) = x sigmoid(x), or sigmoid(x), and its derivative.
__device__ __forceinline__ GateAndSlope gate_and_slope(float x, bool silu) {
    const float s = sigmoid(x);
    if (!silu) return {s, s * (1.0f - s)};
    return {x * s, s * (1.0f + x * (1.0f - s))};
}

}  // namespace causeway::gpu::around
