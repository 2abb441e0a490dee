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
#include "gpu/kit/tensor_map.hpp"
#include "gpu/measure/copy_bandwidth.hpp"
#include "gpu/tensor/random.hpp"

namespace causeway::gpu::bench {

using gpu::copy_bandwidth;
using gpu::fill_normal;

// Prints which GPU there is; false, with the reason, where there is none.
bool on_gpu();

// Element i of `raw` as a number.
float value_at(const std::vector<unsigned char>& raw, Type type, std::size_t i);

// The N rows of one head of a tensor in device memory as doubles.
std::vector<double> rows(const void* data, Type type, Strides s, std::int64_t b, std::int64_t h, std::int64_t N,
                         int width);

struct Times {
    double median = 0, best = 0;  // ms of the GPU's own time for one call: calls are replayed from a graph
    double call = 0;              // ms, median of single calls as a program makes them, the time to launch included
};

// Times call(0) ... call(sets - 1) in turn: give as many sets of inputs as keep them from staying in the cache.
Times time(const std::function<void(int)>& call, int sets, int repeats, cudaStream_t stream);

}  // namespace causeway::gpu::bench
