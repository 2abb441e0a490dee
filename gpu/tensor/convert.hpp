// Elements from one type to another.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/base/layout.hpp"

namespace causeway::gpu {

// to[i] = from[i], both contiguous; rounded to nearest.
void convert(const void* from, Type from_type, void* to, Type to_type, std::int64_t n, cudaStream_t stream);

}  // namespace causeway::gpu
