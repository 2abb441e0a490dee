// A power of γ as a factor of a running sum.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace causeway::gpu {

// γ^n as a Float32 factor, again and again: of the two neighbouring numbers the one that keeps the product of all
// factors so far within half a step of the true power. A rounded γ^n alone would drift by half a step each time.
struct Factor {
    float low, high;
    uint32_t part, sum;
    __device__ Factor(double x, uint32_t taken) {  // `taken`: how many were taken before
        low = __double2float_rd(x), high = __double2float_ru(x), part = 0, sum = 1u << 31;
        if (high > low)
            part =
                static_cast<uint32_t>(fmin((x - low) / (static_cast<double>(high) - low) * 4294967296.0, 4294967295.0));
        sum += part * taken;
    }
    __device__ __forceinline__ float next() {
        sum += part;
        return sum < part ? high : low;
    }
};

}  // namespace causeway::gpu
