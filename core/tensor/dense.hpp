// Between tensors and Eigen's matrices, for the files of linalg.hpp.
#pragma once

#include <cmath>

#include "core/base/eigen.hpp"
#include "core/tensor/decomposition.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway::dense {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// The matrix in Float64. Throws Error naming `function` unless it is 2-dimensional and finite.
inline Tensor check_matrix(const Tensor& a, const char* function) {
    if (a.ndim() != 2) fail(function, ": expected a matrix, got a ", a.summary());
    Tensor x = a.to(DType::f64);
    const double* data = x.data<double>();
    for (Index i = 0; i < x.size(); ++i) {
        if (!std::isfinite(data[i]))
            fail(function, ": entry (", i / x.shape()[1] + 1, ", ", i % x.shape()[1] + 1, ") is ", data[i],
                 ", expected finite entries");
    }
    return x;
}

// The same for a square one.
inline Tensor check_square(const Tensor& a, const char* function) {
    Tensor x = check_matrix(a, function);
    if (x.shape()[0] != x.shape()[1]) fail(function, ": expected a square matrix, got ", x.shape().text());
    return x;
}

// A Float64 tensor of two dimensions as a matrix, sharing the elements.
inline Eigen::Map<const RowMajor> view(const Tensor& x) { return {x.data<double>(), x.shape()[0], x.shape()[1]}; }

// Counts the memory that Eigen takes for `count` matrices of the size of x while it lives; throws OutOfMemory if there
// is no room for them.
inline Room room(const Tensor& x, Index count) { return room(x.size() * count); }

// Float64 tensor with the entries of an Eigen expression of the shape rows × columns.
template <class Expression>
Tensor matrix(const Expression& values) {
    Tensor out(DType::f64, Shape{values.rows(), values.cols()});
    Eigen::Map<RowMajor>(out.data<double>(), values.rows(), values.cols()) = values;
    return out;
}

// The same, Float32 unless `origin` is Float64.
template <class Expression>
Tensor matrix(const Tensor& origin, const Expression& values) {
    return matrix(values).to(origin.dtype() == DType::f64 ? DType::f64 : DType::f32);
}

// The same of one dimension, for a row or a column.
template <class Expression>
Tensor vector(const Tensor& origin, const Expression& values) {
    return matrix(origin, values).reshape(Shape{values.size()});
}

}  // namespace causeway::dense
