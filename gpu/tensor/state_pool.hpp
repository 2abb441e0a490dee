// A pool of states in 8 bits in the memory of the GPU, as core/kit/state_pool.hpp has one in that of the CPU.
#pragma once

#include <vector>

#include "gpu/tensor/tensor.hpp"

namespace causeway::gpu {

// States [slots, heads, d_k, d_v], each entry a whole number from -127 to 127 times a Float32 scale of its head and
// slot: numbers and scales are those of kit::StatePool, to the bit. Everything is queued on the caller's stream.
class StatePool {
public:
    // Of zeros; throws OutOfMemory.
    StatePool(Index slots, Index heads, Index dk, Index dv, cudaStream_t stream = nullptr);

    const Shape& shape() const { return shape_; }  // [slots, heads, d_k, d_v]
    std::size_t bytes() const;                     // of numbers and scales

    // The states of these slots, counted from 0, [slots given, heads, d_k, d_v] in Float32. Throws Error for a slot
    // outside the pool.
    Tensor states(const std::vector<Index>& slots, cudaStream_t stream = nullptr) const;

    // Puts states [slots given, heads, d_k, d_v] of any element type into these slots, each of which must be given
    // once.
    void put(const Tensor& states, const std::vector<Index>& slots, cudaStream_t stream = nullptr);

private:
    Shape shape_;
    Buffer codes_, scales_;  // a byte an entry, a Float32 a head
};

}  // namespace causeway::gpu
