// A tensor as text, as Julia shows arrays: a header and an aligned table, elided to what fits.
#pragma once

#include <string>

#include "core/tensor/tensor.hpp"

namespace causeway {

// One element with about six significant digits (fewer for the 16-bit types), as Julia writes it: 1.0, 0.25, 1.0e-5,
// NaN.
std::string format(double value, DType type);

// The tensor in at most `columns` columns; without a final newline. Of a screen of `rows` rows, at least 10, it leaves
// three for what was typed, an empty one and the next prompt.
std::string format(const Tensor& a, int columns, int rows);

}  // namespace causeway
