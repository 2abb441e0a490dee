// What the functions of this folder share, and those on the GPU: the type that a call is computed in, and its
// parameters in that type.
#pragma once

#include <string>

#include "core/base/error.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway::around {

inline DType computing_type(const Tensor& x) { return x.dtype() == DType::f64 ? DType::f64 : DType::f32; }

// Throws Error for a wrong shape, and where a Float64 would lose digits in the type of computation.
inline void check_parameter(const std::string& name, const Tensor& given, const Shape& expected, DType compute) {
    if (given.shape() != expected) fail(name, ": ", given.shape().text(), ", expected ", expected.text());
    if (given.dtype() == DType::f64 && compute != DType::f64)
        fail(name, ": Float64, expected Float32 like the other tensors");
}
// A parameter in the type of computation.
inline Tensor parameter(const char* name, const Tensor& given, const Shape& expected, DType compute) {
    check_parameter(name, given, expected, compute);
    return given.to(compute);
}

// Throws Error unless what arrives at an output has its shape and type.
inline void check_arriving(const char* name, const Tensor& dy, const Tensor& like) {
    if (dy.shape() != like.shape())
        fail(name, ": ", dy.shape().text(), ", expected ", like.shape().text(), " like the output");
    if (dy.dtype() != like.dtype())
        fail(name, ": ", causeway::name(dy.dtype()), ", expected ", causeway::name(like.dtype()), " like the output");
}

}  // namespace causeway::around
