// Random numbers made on the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/kit/layout.hpp"

namespace causeway::gpu {

// n normal values of this type times `scale`, a function of (seed, index) alone; not the numbers that randn makes on
// the CPU.
void fill_normal(void* data, Type type, std::size_t n, std::uint64_t seed, double scale, cudaStream_t stream);

}  // namespace causeway::gpu
