// The gradient of an input that several states share.
#pragma once

#include "core/tensor/tensor.hpp"

namespace causeway::gradient {

// The gradient of an input, as it was given, from `grad` [batch, heads, N, width]: summed over the heads that shared
// one of the input's.
template <class T>
Tensor as_given(const Tensor& grad, const Tensor& given) {
    if (grad.size() == given.size()) return grad.reshape(given.shape()).to(given.dtype());
    Tensor sum = Tensor::zeros(grad.dtype(), given.shape());
    const Index row = grad.shape()[2] * grad.shape()[3], shared = grad.size() / given.size();
    for (Index head = 0; head < grad.size() / row; ++head) {
        T* to = sum.data<T>() + head / shared * row;
        const T* from = grad.data<T>() + head * row;
        for (Index i = 0; i < row; ++i) to[i] += from[i];
    }
    return sum.to(given.dtype());
}

}  // namespace causeway::gradient
