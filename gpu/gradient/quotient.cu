#include "gpu/gradient/quotient.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <type_traits>

#include "gpu/base/error.hpp"
#include "gpu/kit/warp.cuh"

namespace causeway::gpu {

namespace {

constexpr int threads = 256;

unsigned blocks_for(std::int64_t n, std::int64_t each) {
    return static_cast<unsigned>(std::min<std::int64_t>((n + each - 1) / each, 1 << 16));
}

// Rows of `from` columns to rows of `to`: what is left of a row is 1.
__global__ __launch_bounds__(threads) void copy_rows(const float* from, std::int64_t from_width, float* to,
                                                     std::int64_t to_width, std::int64_t n) {
    const std::int64_t step = std::int64_t{gridDim.x} * threads;
    for (std::int64_t i = blockIdx.x * std::int64_t{threads} + threadIdx.x; i < n; i += step) {
        const std::int64_t row = i / to_width, j = i % to_width;
        to[i] = j < from_width ? from[row * from_width + j] : 1.0f;
    }
}

// A warp to a row.
__global__ __launch_bounds__(threads) void quotient(const float* G, float* x, std::int64_t rows, std::int64_t d) {
    const int lane = threadIdx.x % 32;
    const std::int64_t step = std::int64_t{gridDim.x} * (threads / 32);
    for (std::int64_t row = blockIdx.x * std::int64_t{threads / 32} + threadIdx.x / 32; row < rows; row += step) {
        const float* g = G + row * d;
        float* p = x + row * (d + 1);
        const float D = p[d];
        float sum = 0;
        for (std::int64_t j = lane; j < d; j += 32) {
            sum += g[j] * (p[j] / D);
            p[j] = g[j] / D;
        }
        sum = sum_of_warp(sum);
        __syncwarp();
        if (lane == 0) p[d] = -sum / D;
    }
}

// A block to a γ.
__global__ __launch_bounds__(threads) void sum_gates_kernel(const float* dg, const float* g, float* dgamma,
                                                            std::int64_t batch, std::int64_t heads, std::int64_t N,
                                                            bool one) {
    __shared__ double part[threads];
    const std::int64_t first = one ? 0 : blockIdx.x, last = one ? heads : first + 1;
    double sum = 0;
    for (std::int64_t b = 0; b < batch; ++b) {
        for (std::int64_t h = first; h < last; ++h) {
            for (std::int64_t t = threadIdx.x; t < N; t += threads)
                sum += static_cast<double>(dg[(b * heads + h) * N + t]);
        }
    }
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int n = threads / 2; n > 0; n /= 2) {
        if (threadIdx.x < n) part[threadIdx.x] += part[threadIdx.x + n];
        __syncthreads();
    }
    if (threadIdx.x == 0) dgamma[blockIdx.x] = static_cast<float>(part[0] * exp(-static_cast<double>(g[first * N])));
}

// What a thread reads and writes at once; sums of 16-bit elements are Float32, those of Float32 are Float64.
template <class T, int n>
struct alignas(sizeof(T) * n) Several {
    T x[n];
};
template <class Sum, class T, int n>
__global__ __launch_bounds__(threads) void sum_heads_kernel(const Several<T, n>* from, Several<T, n>* to,
                                                            std::int64_t heads, std::int64_t row, std::int64_t count) {
    const std::int64_t step = std::int64_t{gridDim.x} * threads;
    for (std::int64_t i = blockIdx.x * std::int64_t{threads} + threadIdx.x; i < count; i += step) {
        const std::int64_t b = i / row, j = i % row;
        Sum sum[n] = {};
        for (std::int64_t h = 0; h < heads; ++h) {
            const Several<T, n> part = from[(b * heads + h) * row + j];
#pragma unroll
            for (int e = 0; e < n; ++e) sum[e] += static_cast<Sum>(static_cast<float>(part.x[e]));
        }
        Several<T, n> out;
#pragma unroll
        for (int e = 0; e < n; ++e) out.x[e] = static_cast<T>(static_cast<float>(sum[e]));
        to[i] = out;
    }
}

// Sixteen bytes at a time where the rows allow it.
template <class Sum, class T>
void sum_heads_of(const void* from, void* to, std::int64_t batch, std::int64_t heads, std::int64_t row,
                  cudaStream_t stream) {
    const auto run = [&]<int n>(std::integral_constant<int, n>) {
        const std::int64_t each = row / n, count = batch * each;
        sum_heads_kernel<Sum, T, n><<<blocks_for(count, threads), threads, 0, stream>>>(
            static_cast<const Several<T, n>*>(from), static_cast<Several<T, n>*>(to), heads, each, count);
    };
    constexpr int wide = 16 / static_cast<int>(sizeof(T));
    const bool aligned = (reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to)) % 16 == 0;
    if (aligned && row % wide == 0) run(std::integral_constant<int, wide>());
    else run(std::integral_constant<int, 1>());
}

}  // namespace

void append_ones(const float* from, float* to, std::int64_t rows, std::int64_t d, cudaStream_t stream) {
    const std::int64_t n = rows * (d + 1);
    if (n == 0) return;
    copy_rows<<<blocks_for(n, threads), threads, 0, stream>>>(from, d, to, d + 1, n);
    check_launch("appending a column of ones");
}

void drop_last(const float* from, float* to, std::int64_t rows, std::int64_t d, cudaStream_t stream) {
    const std::int64_t n = rows * d;
    if (n == 0) return;
    copy_rows<<<blocks_for(n, threads), threads, 0, stream>>>(from, d + 1, to, d, n);
    check_launch("dropping a column");
}

void quotient_gradient(const float* G, float* x, std::int64_t rows, std::int64_t d, cudaStream_t stream) {
    if (rows == 0) return;
    quotient<<<blocks_for(rows, threads / 32), threads, 0, stream>>>(G, x, rows, d);
    check_launch("differentiating a quotient");
}

void sum_gates(const float* dg, const float* g, float* dgamma, std::int64_t batch, std::int64_t heads, std::int64_t N,
               bool one, cudaStream_t stream) {
    if (heads == 0) return;
    sum_gates_kernel<<<one ? 1 : static_cast<unsigned>(heads), threads, 0, stream>>>(dg, g, dgamma, batch, heads, N,
                                                                                     one);
    check_launch("summing gradients of gates");
}

void sum_heads(const void* from, void* to, Type type, std::int64_t batch, std::int64_t heads, std::int64_t row,
               cudaStream_t stream) {
    if (batch * row == 0) return;
    if (type == Type::Float32) sum_heads_of<double, float>(from, to, batch, heads, row, stream);
    else if (type == Type::BFloat16) sum_heads_of<float, __nv_bfloat16>(from, to, batch, heads, row, stream);
    else sum_heads_of<float, __half>(from, to, batch, heads, row, stream);
    check_launch("summing over heads");
}

}  // namespace causeway::gpu
