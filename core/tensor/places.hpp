// Slices of a tensor by a list of their places along a dimension, in any order and any number of times.
#pragma once

#include <vector>

#include "core/tensor/tensor.hpp"

namespace causeway {

// The slices of `a` at the places (from 0, each below the length of dimension `dim`, also from 0) behind each other: a
// copy of the same type, whose dimension `dim` has the length of the list. One pass over the elements.
Tensor take(const Tensor& a, int dim, const std::vector<Index>& places);

// Writes slice j of `slices`, which has the type of `a` and the shape that take gives, to places[j] for each j; of a
// place named twice the last one stays.
void put(Tensor& a, int dim, const std::vector<Index>& places, const Tensor& slices);

// Adds slice j of `slices`, as for put, to the slice at places[j] for each j.
void add_slices(Tensor& a, int dim, const std::vector<Index>& places, const Tensor& slices);

}  // namespace causeway
