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

// The comparisons give 0 or 1; the greater or lesser of two is NaN where one of them is.
enum class Binary { add, subtract, multiply, divide, power, eq, ne, lt, le, gt, ge, maximum, minimum };

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

// The element of a where that of the mask is not 0, else that of b, all three broadcast; NaN counts as not 0. What is
// not taken leaves no trace: Inf and NaN may stand there. Throws Error when the shapes do not match.
Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b);

// The products of every element of a with every one of b over the last dimension: [..., m] and [..., n] give
// [..., m, n], leading dimensions broadcast. Throws Error without a dimension, past three, and when they do not match.
Tensor outer(const Tensor& a, const Tensor& b);

// The same in place: elements of `a` become those of the result, each rounded once to the type of `a`, which keeps its
// type and shape. `b` is broadcast to that shape; `function` is what messages call the operation. Only `b` of the whole
// storage of `a` can share elements with it (parts are copies), and then they correspond one to one, so the order of
// the walk does not matter.
void apply_to(Tensor& a, Unary);
void apply_to(Tensor& a, Binary, const Tensor& b, const char* function);
// a += factor * b
void add_to(Tensor& a, const Tensor& b, double factor, const char* function);
void clamp_to(Tensor& a, double low, double high);
// Elements of `b`, broadcast and converted.
void copy_to(Tensor& a, const Tensor& b, const char* function);

}  // namespace causeway
