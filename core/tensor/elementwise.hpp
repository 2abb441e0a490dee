// Operations on each element, with broadcasting as in NumPy: shapes are aligned at the right (width) end, and a
// dimension of length 1, or a missing one, is repeated. Each costs one pass over the result.
// Float16 and BFloat16 are converted to Float32; Float32 with Float64 gives Float64.
#pragma once

#include "core/tensor/tensor.hpp"

namespace causeway {

// elu(x) = x or exp(x) - 1; round goes to the nearest even number on ties; isnan and isfinite give 0 or 1.
enum class Unary {
    negate,
    abs,
    sign,
    exp,
    log,
    sqrt,
    sin,
    cos,
    tanh,
    floor,
    ceil,
    round,
    relu,
    elu,
    sigmoid,
    isnan,
    isfinite
};

// The comparisons give 0 or 1.
enum class Binary { add, subtract, multiply, divide, power, eq, ne, lt, le, gt, ge };

// What the operation is called in messages: "exp", "+".
const char* name(Unary) noexcept;
const char* name(Binary) noexcept;

// The type in which elements of type `t` are computed with: Float64, or Float32 for all others.
DType computing_type(DType t) noexcept;
// That of elements of both types together.
DType promote(DType a, DType b) noexcept;

// Shape of the result of `operation` on operands of shapes a and b. Throws Error when they do not match.
Shape broadcast(const Shape& a, const Shape& b, const char* operation);

// In computing_type of the element type, element by element.
Tensor apply(Unary, const Tensor&);
double apply(Unary, double);

// Throws Error when the shapes do not match.
Tensor apply(Binary, const Tensor& a, const Tensor& b);
double apply(Binary, double a, double b);

// A number as an operand of a tensor of type `t`: no dimension, so it repeats over all.
Tensor scalar(double value, DType t);

// Elements below `low` become low, above `high` become high; NaN stays. Throws Error unless low <= high.
Tensor clamp(const Tensor&, double low, double high);

}  // namespace causeway
