// A tensor of the GPU in parts along its tokens, one a process (core/sharded/parts.hpp).
#pragma once

#include "gpu/tensor/tensor.hpp"

namespace causeway::gpu {

// As of tensors of the CPU: this process's part along dimension `dim` (0 is the first), on its GPU.
Tensor shard(const Tensor& x, int dim);

// All processes' parts as one tensor on every GPU, by NCCL. Throws Error naming the rank whose tensor does not fit.
Tensor unshard(const Tensor& x, int dim);

}  // namespace causeway::gpu
