// What the GPU benches share: inputs, timing, the copy bandwidth that sets the floor.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <vector>

#include "gpu/base/buffer.hpp"
#include "gpu/base/device.hpp"
#include "gpu/base/stream.hpp"
#include "gpu/base/tensor_map.hpp"

namespace causeway::gpu::bench {

// n normal values of this type times `scale`, a function of (seed, index) alone.
void fill_normal(void* data, Type type, std::size_t n, std::uint64_t seed, double scale, cudaStream_t stream);

// Bytes read and written per second by the best of a few plain copies of `bytes` bytes.
double copy_bandwidth(std::size_t bytes, cudaStream_t stream);

struct Times {
    double median = 0, best = 0;  // ms of the GPU's own time for one call: calls are replayed from a graph
    double call = 0;              // ms, median of single calls as a program makes them, the time to launch included
};

// Times call(0) ... call(sets - 1) in turn: give as many sets of inputs as keep them from staying in the cache.
Times time(const std::function<void(int)>& call, int sets, int repeats, cudaStream_t stream);

}  // namespace causeway::gpu::bench
