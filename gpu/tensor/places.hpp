// Rows of tensors that change places: slots of a pool of states, and what has a number for every token of packed
// sequences. Everything contiguous, on the caller's stream.
#pragma once

#include <vector>

#include "gpu/tensor/tensor.hpp"

namespace causeway::gpu {

// Numbers of the host in the memory of the device.
Buffer on_device(const std::vector<Index>& x, cudaStream_t stream);

// The slots of a pool [slots, ...] one after the other, in its type. No other slot is read.
Tensor from_slots(const Tensor& pool, const std::vector<Index>& slots, cudaStream_t stream);

// Writes states [sequences, ...], in the type of the pool, to their slots. No other slot is written.
void to_slots(const Tensor& states, const std::vector<Index>& slots, const Tensor& pool, cudaStream_t stream);

// The gradient of a pool of `count` slots, given that of the states that from_slots took from it, in Float32: of a slot
// that several have their sum, in their order, of one that none has zeros.
Tensor gradient_of_slots(const Tensor& states, const std::vector<Index>& slots, Index count, cudaStream_t stream);

// Of every `period` consecutive heads of a tensor those from `first` on, `together` of them.
struct SomeHeads {
    Index period, first, together;
};
// Those heads of x [n, heads, ...], one after the other: [n, heads / period · together, ...] in its type.
Tensor from_heads(const Tensor& x, const SomeHeads&, cudaStream_t stream);
// Writes them to where from_heads takes them from.
void to_heads(const Tensor& part, const SomeHeads&, const Tensor& x, cudaStream_t stream);

// x, Float32 [heads, N, width], as the pieces of tokens between `cuts` have it, one after the other, each [heads, n,
// width]: what a call on one of them takes. by_heads is the way back.
Tensor by_pieces(const Tensor& x, const std::vector<Index>& cuts, Index heads, Index width, cudaStream_t stream);
Tensor by_heads(const Tensor& x, const std::vector<Index>& cuts, Index heads, Index width, cudaStream_t stream);

}  // namespace causeway::gpu
