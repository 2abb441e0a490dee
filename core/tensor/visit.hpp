// One generic function for all element types.
#pragma once

#include "core/base/eigen.hpp"  // half, bfloat16
#include "core/tensor/tensor.hpp"

namespace causeway {

// Calls f with a value of the element type: visit(t, [&](auto zero) { using T = decltype(zero); ... }).
template <class F>
decltype(auto) visit(DType t, F&& f) {
    switch (t) {
        case DType::f64: return f(double{});
        case DType::f16: return f(half{});
        case DType::bf16: return f(bfloat16{});
        default: return f(float{});
    }
}

}  // namespace causeway
