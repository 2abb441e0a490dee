// What the files of tests/data hold; see tests/data/make_golden.py.
#pragma once

#include <string>

#include "core/tensor/tensor.hpp"

namespace causeway::testing {

enum class Kind { floating, integer, natural, truth };

inline double golden_value(Kind kind, Index k) {
    const auto x = static_cast<double>(7 * k % 13);
    switch (kind) {
        case Kind::floating: return (x - 6) / 4;
        case Kind::integer: return x - 6;
        case Kind::natural: return x;
        default: return k % 3 == 0 ? 1 : 0;
    }
}

inline Tensor golden_tensor(DType type, const Shape& shape, Kind kind = Kind::floating) {
    Tensor out(type, shape);
    for (Index k = 0; k < out.size(); ++k) out.set(k, golden_value(kind, k));
    return out;
}

// The beginning of a script in Python that knows the numbers of Kind::floating too.
inline const std::string python_golden =
    "import sys, numpy as np\n"
    "def is_golden(x, dtype, shape):\n"
    "    k = np.arange(int(np.prod(shape)))\n"
    "    values = ((7 * k % 13 - 6) / 4).reshape(shape)\n"
    "    return x.dtype == np.dtype(dtype) and x.shape == shape and (x == values).all()\n";

// Same type, shape and numbers; NaN is equal to nothing.
inline bool same(const Tensor& a, const Tensor& b) {
    bool equal = a.dtype() == b.dtype() && a.shape() == b.shape();
    for (Index k = 0; equal && k < a.size(); ++k) equal = a.get(k) == b.get(k);
    return equal;
}

}  // namespace causeway::testing
