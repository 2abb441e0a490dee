#include "core/tensor/matmul.hpp"

#include <algorithm>

#include "core/tensor/elementwise.hpp"  // broadcast, promote
#include "core/tensor/product.hpp"
#include "core/tensor/walk.hpp"

namespace causeway {
namespace {

Shape leading(const Shape& shape) {
    Shape out;
    for (int i = 0; i + 2 < shape.ndim(); ++i) out.push_back(shape[i]);
    return out;
}

// C = A B for matrices a [batch of A, m, k], b [batch of B, k, n], spread over batch and blocks of C.
template <class T>
void multiply(const Shape& batch, const Tensor& a, const Tensor& b, Tensor& c) {
    constexpr Index block_rows = 128, block_columns = 512;
    Index m = a.shape().back(1), count = batch.size();
    const Index k = a.shape().back(), n = b.shape().back();
    if (b.size() == k * n) {  // one B for all: a single tall product
        m *= count;
        count = 1;
    }
    const Walk<2> walk(batch,
                       {broadcast_strides(leading(a.shape()), batch), broadcast_strides(leading(b.shape()), batch)});
    const Index row_blocks = (m + block_rows - 1) / block_rows, column_blocks = (n + block_columns - 1) / block_columns;
    parallel_for(count * row_blocks * column_blocks, [&](Index task) {
        const Index j = task % column_blocks * block_columns;
        const Index i = task / column_blocks % row_blocks * block_rows;
        const Index g = task / column_blocks / row_blocks;
        const auto matrix = walk.offsets(g);
        const Index rows = std::min(block_rows, m - i), columns = std::min(block_columns, n - j);
        matrix_product<T>(c.data<T>() + (g * m + i) * n + j, n, a.data<T>() + matrix[0] * m * k + i * k, k,
                          b.data<T>() + matrix[1] * k * n + j, n, rows, columns, k, false);
    });
}

bool fit_element_by_element(const Shape& a, const Shape& b) {
    for (int i = 0; i < std::min(a.ndim(), b.ndim()); ++i)
        if (a.back(i) != b.back(i) && a.back(i) != 1 && b.back(i) != 1) return false;
    return true;
}

}  // namespace

Tensor matmul(const Tensor& left, const Tensor& right) {
    const auto refuse = [&](const auto&... why) {
        fail("*: shapes ", left.shape().text(), " and ", right.shape().text(), why...);
    };
    if (left.ndim() == 0 || right.ndim() == 0) refuse(", expected at least one dimension each");
    if (left.ndim() == 1 && right.ndim() == 1)
        refuse(": a product of two vectors is dot(A, B) or, element by element, times(A, B)");
    const DType type = promote(left.dtype(), right.dtype());
    Tensor a = left.to(type), b = right.to(type);
    if (a.ndim() == 1) a = a.reshape(Shape{1, a.size()});
    if (b.ndim() == 1) b = b.reshape(Shape{b.size(), 1});
    if (a.shape().back() != b.shape().back(1)) {
        refuse(" do not fit: a matrix product needs the columns of the left (", a.shape().back(),
               ") to be the rows of the right (", b.shape().back(1), ")",
               fit_element_by_element(left.shape(), right.shape()) ? "; times(A, B) is the product element by element"
                                                                   : "");
    }
    const Shape of_a = leading(a.shape()), of_b = leading(b.shape());
    if (!fit_element_by_element(of_a, of_b))
        refuse(" do not match: the dimensions before the last two, of the batch, are ", of_a.text(), " and ",
               of_b.text());
    const Shape batch = broadcast(of_a, of_b, "*");
    Shape full = batch, result = batch;
    full.push_back(a.shape().back(1));
    full.push_back(b.shape().back());
    if (left.ndim() > 1) result.push_back(full.back(1));
    if (right.ndim() > 1) result.push_back(full.back());
    Tensor c(type, full);
    if (a.shape().back() == 0) return Tensor::zeros(type, result);
    if (c.size() == 0) return c.reshape(result);
    if (type == DType::f64) multiply<double>(batch, a, b, c);
    else multiply<float>(batch, a, b, c);
    return c.reshape(result);
}

}  // namespace causeway
