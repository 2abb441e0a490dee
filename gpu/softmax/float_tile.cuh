// Tiles of Float32 rows and their products on FMA units: 256 threads in 16 × 16, thread (y, x) with rows y, y + 16, ...
// of one tile, rows x, x + 16, ... of the other, and columns 64 n + 4 x ... 64 n + 4 x + 3 of what is summed.
#pragma once

#include <cuda_runtime.h>

namespace causeway::gpu::softmax {

// s[TM][TN] += A Bᵀ, one step of four columns: rows y + 16 i of A and x + 16 n of B, `row` floats apart.
template <int TM, int TN>
__device__ __forceinline__ void add_dots(float (&s)[TM][TN], const float* a_rows, const float* b_rows, int row, int y,
                                         int x, int e) {
    float4 a[TM], b[TN];
#pragma unroll
    for (int i = 0; i < TM; ++i) a[i] = *reinterpret_cast<const float4*>(a_rows + (y + 16 * i) * row + e);
#pragma unroll
    for (int i = 0; i < TN; ++i) b[i] = *reinterpret_cast<const float4*>(b_rows + (x + 16 * i) * row + e);
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int n = 0; n < TN; ++n) {
            s[i][n] = fmaf(a[i].x, b[n].x, s[i][n]), s[i][n] = fmaf(a[i].y, b[n].y, s[i][n]);
            s[i][n] = fmaf(a[i].z, b[n].z, s[i][n]), s[i][n] = fmaf(a[i].w, b[n].w, s[i][n]);
        }
    }
}

// o += weight · v.
__device__ __forceinline__ void add_weighted(float (&o)[4], float weight, float4 v) {
    o[0] = fmaf(weight, v.x, o[0]), o[1] = fmaf(weight, v.y, o[1]);
    o[2] = fmaf(weight, v.z, o[2]), o[3] = fmaf(weight, v.w, o[3]);
}

// The columns of a thread to a row of `width`.
template <int C>
__device__ __forceinline__ void store_columns(float* to, const float (&o)[C][4], float factor, int width, int x) {
#pragma unroll
    for (int n = 0; n < C; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            if (64 * n + 4 * x + e < width) to[64 * n + 4 * x + e] = o[n][e] * factor;
        }
    }
}

}  // namespace causeway::gpu::softmax
