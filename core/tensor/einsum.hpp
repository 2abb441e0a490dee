// Sums of products over named dimensions.
#pragma once

#include <string>
#include <vector>

#include "core/tensor/tensor.hpp"

namespace causeway {

// einsum("bhnd,bhmd->bhnm", {A, B}): a letter names a dimension of the operands; out[output letters] is the sum of the
// products of the operands' elements over all other letters. A letter twice in an operand takes its diagonal; without
// "->" the output has the letters that occur once, in alphabetical order, as in NumPy. Blanks do not count. Without
// output letters the result has no dimension.
//
// Several operands are multiplied two at a time, in the order that takes the fewest multiplications (of more than six
// operands: the cheapest pair first); a pair is a matrix product where it has rows, columns and a depth, and loops
// elsewhere. Sums are in the operands' precision
// (Float32 for the storage types, Float64 where one is that), in an order that does not depend on the number of
// threads.
//
// Throws Error for a formula that is none, another number of operands or dimensions, lengths that differ, an output
// letter twice or in no operand, and more than four letters in the output.
Tensor einsum(const std::string& formula, const std::vector<Tensor>& operands);

}  // namespace causeway
