// A tensor in parts along its tokens, one a rank.
#pragma once

#include "core/tensor/safetensors.hpp"  // TensorPart
#include "core/tensor/tensor.hpp"

namespace causeway {

// This rank's part of x, which every rank has whole, along dimension `dim` (0 is the first): whole chunks of 64 tokens,
// as equal as can be, as linear_attention_sharded cuts them. Of a process that is alone x itself.
Tensor shard(const Tensor& x, int dim);

// Throws Error where a tensor of this shape has no dimension `dim`.
void check_part_dimension(const Shape& shape, int dim);

// Which part that is, of a tensor of this shape for one of so many ranks. Throws Error where it has no such dimension.
TensorPart shard_of(const Shape& shape, int dim, int rank, int ranks);

// All ranks' parts, in the order of the ranks, as one tensor on every rank. The ranks' tensors may differ in dimension
// `dim` alone. Throws Error naming the rank where they do not.
Tensor unshard(const Tensor& x, int dim);

}  // namespace causeway
