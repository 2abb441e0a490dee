// A sum over heads of eight neighbours of a gradient.
#pragma once

#include "gpu/gradient/gated_heads/part.hpp"
#include "gpu/kit/pack.cuh"

namespace causeway::gpu::gated_heads {

// In Float32, of what each head's gradient is in BFloat16, one head after the other; then rounded once more.
struct SumOfHeads {
    float x[8] = {};

    __device__ __forceinline__ void add(const uint4& of_head) {
        const uint32_t words[4] = {of_head.x, of_head.y, of_head.z, of_head.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 y = unpack(__nv_bfloat16{}, words[i]);
            x[2 * i] += y.x, x[2 * i + 1] += y.y;
        }
    }
    __device__ __forceinline__ uint4 rounded() const {
        const auto two = [&](int i) { return pack(__nv_bfloat16{}, x[2 * i], x[2 * i + 1]); };
        return {two(0), two(1), two(2), two(3)};
    }
};

}  // namespace causeway::gpu::gated_heads
