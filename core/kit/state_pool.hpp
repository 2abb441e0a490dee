// A pool of states in 8 bits, a quarter of the memory of Float32: what a server keeps of texts between their calls. A
// call takes the states of its texts out, computes with them in Float32, and puts the new ones back.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor/tensor.hpp"

namespace causeway::kit {

// States [slots, heads, d_k, d_v], each entry a whole number from -127 to 127 times a Float32 scale that the d_k·d_v
// entries of one head of one slot share: the largest of them is 127 or -127. What is taken out differs from what was
// put in by at most 1/253 of the largest entry of its head, and by 2^-126 where that is tiny; an entry of 0 stays 0.
// Whole numbers and not an 8-bit floating-point format, whose three bits of mantissa are off by 1/16 of the largest
// entry: entries of one head are of one size, so the range that its exponents would give is not needed.
// A head that holds an Inf or a NaN has no scale: all of it comes out as NaN, so that none of them is lost in silence.
class StatePool {
public:
    StatePool(Index slots, Index heads, Index dk, Index dv);  // of zeros; throws Error, OutOfMemory

    const Shape& shape() const { return shape_; }  // [slots, heads, d_k, d_v]
    std::size_t bytes() const;                     // of numbers and scales

    // The states of these slots, counted from 0, [slots given, heads, d_k, d_v] in Float32. Throws Error for a slot
    // outside the pool.
    Tensor states(const std::vector<Index>& slots) const;

    // Puts states [slots given, heads, d_k, d_v] of any element type into these slots, each of which must be given
    // once.
    void put(const Tensor& states, const std::vector<Index>& slots);

private:
    Index entries() const { return shape_[2] * shape_[3]; }  // of a head

    Shape shape_;
    Buffer<std::int8_t> codes_;
    Buffer<float> scales_;
};

}  // namespace causeway::kit
