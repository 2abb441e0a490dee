// A tensor as text, as Julia shows arrays: a header and an aligned table, elided to what fits.
#pragma once

#include <string>

#include "core/tensor/tensor.hpp"

namespace causeway {

// One element with about six significant digits (fewer for the 16-bit types), as Julia writes it: 1.0, 0.25, 1.0e-5,
// NaN.
std::string format(double value, DType type);

// The tensor in at most `columns` columns, and about `rows` rows; without a final newline.
std::string format(const Tensor& a, int columns, int rows);

}  // namespace causeway
