// A function of a number, for very many numbers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/base/error.hpp"

namespace causeway::gpu {

constexpr int each_threads = 256;

// f(i) for every i < n.
template <class F>
__global__ __launch_bounds__(each_threads) void each(std::int64_t n, F f) {
    const std::int64_t step = std::int64_t{gridDim.x} * each_threads;
    for (std::int64_t i = blockIdx.x * std::int64_t{each_threads} + threadIdx.x; i < n; i += step) f(i);
}

// Queues it; `what` is for the message of what failed.
template <class F>
void run_each(const char* what, std::int64_t n, cudaStream_t stream, F f) {
    if (n == 0) return;
    const std::int64_t blocks = std::min<std::int64_t>((n + each_threads - 1) / each_threads, 1 << 14);
    each<<<static_cast<unsigned>(blocks), each_threads, 0, stream>>>(n, f);
    check_launch(what);
}

}  // namespace causeway::gpu
