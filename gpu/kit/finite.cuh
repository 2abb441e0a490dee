// The vote that keeps a value which is not finite behind its token.
//
// A masked score is 0, but 0 · NaN and 0 · Inf are NaN: one bad value at token j would reach rows before j of its tile.
// Where all outputs are finite, nothing bad was multiplied in. So kernels compute as if there were no such values, ask
// whether an output is not finite, and only then make that output again in a form that multiplies nothing which the row
// does not see.
#pragma once

#include "gpu/kit/warp.cuh"

namespace causeway::gpu {

// x · 0 is 0 for finite x alone.
__device__ __forceinline__ bool is_finite(float x) { return x * 0.0f == 0.0f; }
__device__ __forceinline__ bool is_finite(float4 x) {
    return fmaf(x.x, 0.0f, fmaf(x.y, 0.0f, fmaf(x.z, 0.0f, x.w * 0.0f))) == 0.0f;
}
template <int n>
__device__ __forceinline__ bool are_finite(const float (&x)[n]) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < n; ++i) sum = fmaf(x[i], 0.0f, sum);
    return sum == 0.0f;
}

// Whether a row in memory is finite: the same answer to all lanes of a warp.
template <class E>
__device__ __forceinline__ bool is_row_finite(const E* row, int width) {
    bool finite = true;
    for (int c = threadIdx.x % 32; c < width; c += 32) finite = finite && is_finite(static_cast<float>(row[c]));
    return __all_sync(all_lanes, finite);
}

// Stores a row by a whole warp. Returns, to all lanes, whether it is finite.
template <class E>
__device__ __forceinline__ bool store_row(E* to, const float* row, int width) {
    bool finite = true;
    for (int c = threadIdx.x % 32; c < width; c += 32) {
        const float x = row[c];
        to[c] = static_cast<E>(x);
        finite = finite && is_finite(x);
    }
    return __all_sync(all_lanes, finite);
}

// Makes the elements of a row that are not finite again, by a whole warp: row[c] = Σ_{j < seen} weight(j) v(j, c) in
// the order of the tokens, from begin(c) on. weight is called by all lanes together and gives all of them the same.
// Stops where no element can become finite any more.
template <class E, class Begin, class Weight, class Value>
__device__ __forceinline__ void sum_row_again(E* row, int width, long long first, long long seen, Begin&& begin,
                                              Weight&& weight, Value&& value) {
    const int lane = threadIdx.x % 32;
    for (int block = 0; block < width; block += 32) {
        const int c = block + lane;
        const bool bad = c < width && !is_finite(static_cast<float>(row[c]));
        if (!__any_sync(all_lanes, bad)) continue;
        float sum = begin(c < width ? c : 0);
        for (long long j = first; j < seen; ++j) {
            if (j % 32 == 0 && !__any_sync(all_lanes, bad && is_finite(sum))) break;
            const float w = weight(j);
            if (bad) sum = fmaf(w, value(j, c), sum);
        }
        if (bad) row[c] = static_cast<E>(sum);
    }
}

}  // namespace causeway::gpu
