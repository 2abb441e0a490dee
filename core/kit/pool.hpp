// Pools of states: what a server of many texts keeps in one tensor, a slot for each of them. A call on some of the
// texts is told their slots.
#pragma once

#include <vector>

#include "core/tensor/tensor.hpp"

namespace causeway::kit {

// Throws Error unless there is a slot, counted from 0, for each of `sequences` within the pool [slots, ...]; where the
// slots are written, no two sequences may have the same one.
void check_slots(const std::vector<Index>& slots, Index sequences, const Tensor& pool, bool written);

// The slots of a pool one after the other, converted to `type`: [sequences, ...]. No other slot is read.
Tensor from_slots(const Tensor& pool, const std::vector<Index>& slots, DType type);

// Writes states [sequences, ...] to their slots, rounded to the type of the pool. No other slot is written.
void to_slots(const Tensor& states, const std::vector<Index>& slots, Tensor& pool);

// Writes states over given ones of the same shape, rounded to their type.
void copy_to(const Tensor& states, Tensor& given);

// The gradient of a pool, given that of the states that from_slots took from it: of a slot that several have their sum,
// of one that none has zeros.
Tensor gradient_of_slots(const Tensor& states, const std::vector<Index>& slots, Index count);

}  // namespace causeway::kit
