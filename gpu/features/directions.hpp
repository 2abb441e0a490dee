// The random directions of the feature maps: drawn on the CPU, the same for the same seed as core's.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/tensor/tensor.hpp"

namespace causeway::gpu {

// [heads, m, d] in Float32 on the GPU: for head h the directions that core's low_rank() takes for that head of all
// heads of a call with this seed (core/lowrank/features.hpp). O(heads · m d²) on the CPU, on all its cores, then a
// copy; waits for it. A thread's last four, of at most 2^21 numbers each, are kept and only copied.
Tensor random_directions(std::uint64_t seed, Index heads, Index m, Index d, bool orthogonal,
                         cudaStream_t stream = nullptr);

}  // namespace causeway::gpu
