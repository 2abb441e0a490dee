#include "core/tensor/product.hpp"

#include <algorithm>

#include "core/base/eigen.hpp"

namespace causeway {
namespace {

template <bool transposed, class M>
decltype(auto) turned(const M& m) {
    if constexpr (transposed) return m.transpose();
    else return (m);
}

// The same in plain loops, which sum every element in the order of its terms.
template <class T, bool a_transposed, bool x_transposed>
void small_product(T* y, Index y_stride, const T* a, Index a_stride, const T* x, Index x_stride, Index rows, Index cols,
                   Index depth, bool add) {
    for (Index i = 0; i < rows; ++i) {
        T* row = y + i * y_stride;
        if (!add) std::fill_n(row, cols, T(0));
        for (Index k = 0; k < depth; ++k) {
            const T factor = a_transposed ? a[k * a_stride + i] : a[i * a_stride + k];
            for (Index j = 0; j < cols; ++j)
                row[j] += factor * (x_transposed ? x[j * x_stride + k] : x[k * x_stride + j]);
        }
    }
}

// Below this sum of the three sizes Eigen computes element by element, in an order that depends on the address of y:
// the bits of a row would be others elsewhere in memory.
constexpr Index small = 20;

}  // namespace

template <class T, bool a_transposed, bool x_transposed>
void matrix_product(T* y, Index y_stride, const T* a, Index a_stride, const T* x, Index x_stride, Index rows,
                    Index cols, Index depth, bool add) {
    if (rows + cols + depth < small)
        return small_product<T, a_transposed, x_transposed>(y, y_stride, a, a_stride, x, x_stride, rows, cols, depth,
                                                            add);
    using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    using Stored = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>;
    const Stored A(a, a_transposed ? depth : rows, a_transposed ? rows : depth, Eigen::OuterStride<>(a_stride)),
        X(x, x_transposed ? cols : depth, x_transposed ? depth : cols, Eigen::OuterStride<>(x_stride));
    Eigen::Map<Matrix, 0, Eigen::OuterStride<>> Y(y, rows, cols, Eigen::OuterStride<>(y_stride));
    if (!add) Y.setZero();
    Y.noalias() += turned<a_transposed>(A) * turned<x_transposed>(X);
}

#define CAUSEWAY_PRODUCT(T, a_transposed, x_transposed)                                                             \
    template void matrix_product<T, a_transposed, x_transposed>(T*, Index, const T*, Index, const T*, Index, Index, \
                                                                Index, Index, bool);
#define CAUSEWAY_PRODUCTS(T)          \
    CAUSEWAY_PRODUCT(T, false, false) \
    CAUSEWAY_PRODUCT(T, false, true)  \
    CAUSEWAY_PRODUCT(T, true, false)  \
    CAUSEWAY_PRODUCT(T, true, true)
CAUSEWAY_PRODUCTS(float)
CAUSEWAY_PRODUCTS(double)

}  // namespace causeway
