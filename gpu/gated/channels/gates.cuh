// Gates as the kernels of a gate per channel take them, and the sub-blocks of a chunk's scores.
#pragma once

#include <cuda_runtime.h>

#include "gpu/gated/arguments.hpp"
#include "gpu/kit/element.cuh"
#include "gpu/kit/limits.hpp"
#include "gpu/kit/ptx.cuh"

namespace causeway::gpu::channels {

using std::int64_t;

// The logarithm of a gate, base 2, cut off at 2^-160, which is 0 in Float32, so that sums of them stay numbers. NaN
// stays.
__device__ __forceinline__ float gate_base_2(float g) {
    constexpr float least = -160.0f;
    const float x = g * limits::log2_e;
    return x < least ? least : x;
}

// Gates of a head that are made of a projection.
struct MadeGates {
    float rate, lower_bound;  // e^A_log
    const float* bias;        // of the head, [gates]; null: none

    __device__ __forceinline__ MadeGates(const Projection& p, int64_t bh, int gates) : lower_bound(p.lower_bound) {
        const int64_t head = bh % p.heads;
        rate = expf(p.A_log[head]);
        bias = p.bias ? p.bias + head * gates : nullptr;
    }
    __device__ __forceinline__ float operator()(float x) const {
        if (lower_bound == 0.0f) return -rate * softplus(x);
        const float y = rate * x, e = ptx::ex2_approx(-fabsf(y) * limits::log2_e);
        return lower_bound * __fdividef(y < 0 ? e : 1.0f, 1.0f + e);
    }
    // log(1 + e^x) to 1e-5 of its size: near 0 the logarithm by its series, elsewhere by the GPU's approximation. With
    // the functions of the CUDA library calls of 0.42 and 0.59 ms took 0.05 and 0.06 more (docs/kernels/gated.md).
    static __device__ __forceinline__ float softplus(float x) {
        const float e = ptx::ex2_approx(-fabsf(x) * limits::log2_e),
                    series = e * fmaf(e, fmaf(e, 1.0f / 3, -0.5f), 1.0f),
                    of_sum = __log2f(1.0f + e) * (1 / limits::log2_e);
        return fmaxf(x, 0.0f) + (e < 0x1p-6f ? series : of_sum);
    }
};

// The log gate of token t of a head, at channel c; made: of a projection.
template <bool made>
__device__ __forceinline__ float log_gate(const gated::Call& call, int64_t bh, int64_t t, int c) {
    const int64_t at = (bh * call.N + t) * call.gates + (call.gates > 1 ? c : 0);
    const Projection& p = call.projection;
    if (!made) return call.g[at];
    const MadeGates gate(p, bh, call.gates);
    const float x = p.type == Type::Float32 ? static_cast<const float*>(p.a)[at]
                                            : static_cast<float>(static_cast<const __nv_bfloat16*>(p.a)[at]);
    return gate(gate.bias ? x + gate.bias[c] : x);
}

// What stands for a β of 0 in the gradient, which divides by it: whatever is written with it is lost beside any number.
constexpr float least_beta = 0x1p-100f;

// Sub-block I >= J of the i-th of the ten.
__device__ __forceinline__ void block_of(int i, int& I, int& J) {
    I = i < 1 ? 0 : i < 3 ? 1 : i < 6 ? 2 : 3;
    J = i - I * (I + 1) / 2;
}

}  // namespace causeway::gpu::channels
