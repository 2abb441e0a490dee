// Random inputs as the delta rule needs them: keys and queries of length 1, gates of several kinds, and beta.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "gpu/kit/warp.cuh"

namespace causeway::gpu::bench {

using std::int64_t, std::uint32_t, std::uint64_t;

// usual: log α = -0.075 x², x normal; quarter: logsigmoid(x) / 16, and none in every fourth head, as FlashQLA's
// benchmark has them.
enum class Gates { none, usual, slow, strong, resets, quarter };

static __device__ uint32_t mix(uint64_t x) {  // SplitMix64's finaliser (Steele, Lea, Flood 2014)
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return static_cast<uint32_t>((x ^ (x >> 31)) >> 32);
}
static __device__ float uniform(uint64_t seed, uint64_t i) {
    return (static_cast<float>(mix((seed << 40) + i * 0x9e3779b97f4a7c15) >> 8) + 0.5f) * 0x1p-24f;
}

// Rows of `width` normal elements of deviation width^-1/2, every `step` elements, to unit length; correlated: one
// direction of unit length added first.
template <class T>
static __global__ void unit_rows(T* x, int64_t rows, int width, int64_t step, bool correlated, uint64_t seed) {
    const int64_t row = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
    const int lane = threadIdx.x % 32;
    if (row >= rows) return;
    T* r = x + row * step;
    const float along = rsqrtf(static_cast<float>(width));
    float sum = 0;
    for (int i = lane; i < width; i += 32) {
        float y = r[i];
        if (correlated) y += mix(seed + i) & 1 ? along : -along;
        r[i] = static_cast<T>(y);
        sum += y * y;
    }
    const float by = rsqrtf(sum_of_warp(sum));
    for (int i = lane; i < width; i += 32) r[i] = static_cast<T>(static_cast<float>(r[i]) * by);
}

// Row t of `width` contiguous elements times 2^(t % 9 - 4).
template <class T>
static __global__ void stretch_rows(T* x, int64_t rows, int width) {
    const int64_t row = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
    if (row >= rows) return;
    const float by = exp2f(static_cast<float>(row % 9 - 4));
    for (int i = threadIdx.x % 32; i < width; i += 32)
        x[row * width + i] = static_cast<T>(static_cast<float>(x[row * width + i]) * by);
}

static __global__ void fill_gates(float* g, int64_t n, int64_t tokens, Gates kind, uint64_t seed) {
    const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float u = uniform(seed, i), x = sqrtf(-2 * logf(u)) * cospif(2 * uniform(seed + 1, i));
    float y = -0.075f * x * x;
    if (kind == Gates::slow) y *= 0.01f;
    if (kind == Gates::strong) y *= 100;
    if (kind == Gates::resets && uniform(seed + 2, i) < 0.02f) y = -INFINITY;
    if (kind == Gates::quarter) y = i / tokens % 4 == 3 ? 0.0f : -log1pf(expf(-x)) / 16;
    g[i] = y;
}

static __global__ void fill_beta(float* beta, int64_t n, float low, float high, uint64_t seed) {
    const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i < n) beta[i] = uniform(seed + 3, i) < 0.02f ? 0.0f : low + (high - low) * uniform(seed + 4, i);
}

}  // namespace causeway::gpu::bench
