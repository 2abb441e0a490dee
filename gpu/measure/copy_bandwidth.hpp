// The rate that the GPU's memory sustains.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace causeway::gpu {

// Bytes read and written per second by the best of a few plain copies of `bytes` bytes, the median of 15 runs each;
// takes 2 · bytes of device memory. Throws Error, OutOfMemory.
double copy_bandwidth(std::size_t bytes, cudaStream_t stream);

}  // namespace causeway::gpu
