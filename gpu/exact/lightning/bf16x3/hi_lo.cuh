// Products of warpgroups of Float32 numbers as sums of two BFloat16 (gpu/kit/hi_lo.cuh).
#pragma once

#include "gpu/kit/hi_lo.cuh"
#include "gpu/kit/ptx.cuh"

namespace causeway::gpu::la {

// d = hi·hi + hi·lo + lo·hi, the small terms first, of A (four registers from i on) and B, whose lo lies `lo_at` bytes
// behind its hi. Adds to d where `add`.
template <int tb, int n, int count>
__device__ __forceinline__ void wgmma_hi_lo(float (&d)[n], const uint32_t (&hi)[count], const uint32_t (&lo)[count],
                                            int i, const auto& b, uint32_t at, uint32_t lo_at, int add) {
    using E = __nv_bfloat16;
    ptx::wgmma_rs<E, tb>(d, lo[i], lo[i + 1], lo[i + 2], lo[i + 3], b + at, add);
    ptx::wgmma_rs<E, tb>(d, hi[i], hi[i + 1], hi[i + 2], hi[i + 3], b + (at + lo_at), 1);
    ptx::wgmma_rs<E, tb>(d, hi[i], hi[i + 1], hi[i + 2], hi[i + 3], b + at, 1);
}

}  // namespace causeway::gpu::la
