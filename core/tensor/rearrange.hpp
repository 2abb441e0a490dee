// Elements in other places: permuted dimensions, parts, joined tensors. One pass over the elements each; all of them
// keep the element type and return copies.
#pragma once

#include <array>
#include <vector>

#include "core/tensor/tensor.hpp"

namespace causeway {

// The tensor whose dimension i is dimension order[i] (from 0) of `a`; `order` must be a permutation of 0 ... ndim - 1.
Tensor permute(const Tensor& a, const std::vector<int>& order);

// The last two dimensions swapped. Throws Error below two dimensions.
Tensor transpose(const Tensor& a);

// Of a vector the matrix with it on the diagonal and zeros elsewhere; of a matrix the vector of its diagonal. Throws
// Error for other dimensions.
Tensor diag(const Tensor& a);

// The tensors behind each other along `dim` (from 0). Throws Error unless there is one and all others of their
// dimensions agree. Equal element types are kept, different ones give Float64 if one is that, or Float32.
Tensor concatenate(const std::vector<Tensor>& parts, int dim);

// A box of elements: in dimension i those from first[i] on, count[i] of them. Where drop[i], the part lacks the
// dimension.
struct Box {
    std::array<Index, Shape::max_ndim> first{}, count{};
    std::array<bool, Shape::max_ndim> drop{};
};

// Shape of a part, and the part itself. The box must lie inside the tensor.
Shape part_shape(const Tensor& a, const Box& box);
Tensor part(const Tensor& a, const Box& box);

// Writes `value`, broadcast to the shape of the part and converted to the type of `a`. Throws Error if it does not fit.
void assign(Tensor& a, const Box& box, const Tensor& value);

// Same type, same shape and equal elements; NaN is equal to nothing.
bool identical(const Tensor& a, const Tensor& b);

}  // namespace causeway
