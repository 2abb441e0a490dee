// The steps that the definitions are written in. For Float32 and Float64 they are Eigen's products; for the counting
// scalar (core/measure/counting.hpp) plain loops in which every term is one multiply and one add.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "core/base/interrupt.hpp"
#include "core/kit/views.hpp"
#include "core/tensor/product.hpp"

namespace causeway::kit {

// Whether matrix_product takes these: rows in memory, without gaps between their elements. The outer product of two
// vectors stays with Eigen, which makes a loop of it in place.
template <class Y, class A, class X>
inline constexpr bool are_matrices = A::ColsAtCompileTime != 1 && Y::InnerStrideAtCompileTime == 1 &&
                                     A::InnerStrideAtCompileTime == 1 && X::InnerStrideAtCompileTime == 1 &&
                                     bool(Y::IsRowMajor);

template <bool add, class Y, class A, class X>
void product_into(Y&& y, const A& a, const X& x) {
    using T = typename std::decay_t<Y>::Scalar;
    if constexpr (are_matrices<std::decay_t<Y>, A, X>) {
        matrix_product<T, !A::IsRowMajor, !X::IsRowMajor>(y.data(), y.outerStride(), a.data(), a.outerStride(),
                                                          x.data(), x.outerStride(), y.rows(), y.cols(), a.cols(), add);
    } else if constexpr (add) {
        y.noalias() += a * x;
    } else {
        y.noalias() = a * x;
    }
}

// Y = A X.
template <class Y, class A, class X>
void set_product(Y&& y, const A& a, const X& x) {
    product_into<false>(y, a, x);
}

// A X, as a matrix of its own.
template <class A, class X>
Matrix<typename A::Scalar> product(const A& a, const X& x) {
    Matrix<typename A::Scalar> y(a.rows(), x.cols());
    set_product(y, a, x);
    return y;
}

// Y += A X.
template <class Y, class A, class X>
void add_product(Y&& y, const A& a, const X& x) {
    using T = typename std::decay_t<Y>::Scalar;
    if constexpr (std::is_floating_point_v<T>) {
        product_into<true>(y, a, x);
    } else {
        for (Index i = 0; i < a.rows(); ++i) {
            interrupt::check();
            for (Index k = 0; k < a.cols(); ++k)
                for (Index j = 0; j < x.cols(); ++j) y(i, j) += a(i, k) * x(k, j);
        }
    }
}

// γ^0 ... γ^(n-1) as T. Powers below the smallest normal number are 0: they could only underflow, slowly.
template <class T>
class Powers {
public:
    Powers(double gamma, Index n) : powers_(n) {
        for (Index k = 0; k < n; ++k) {
            const double power = std::pow(gamma, static_cast<double>(k));
            using Limits = std::numeric_limits<std::conditional_t<std::is_floating_point_v<T>, T, double>>;
            powers_[k] = T(power < static_cast<double>(Limits::min()) ? 0.0 : power);
        }
    }
    const T& operator[](Index k) const { return powers_[k]; }

private:
    Buffer<T> powers_;
};

// A = B Cᵀ ⊙ M for a block of tokens, whose first rows and columns are the same token: the lower triangle is
// computed, the upper set to zero. `powers` null: M is 0-1.
template <class T, class BlockB, class BlockC>
void masked_product(Eigen::Ref<Matrix<T>, 0, Eigen::OuterStride<>> A, const BlockB& B, const BlockC& C,
                    const Powers<T>* powers) {
    const Index n = B.rows();
    A.setConstant(T(0));
    if constexpr (std::is_floating_point_v<T>) {
        set_product(A, B, C.transpose());
        A.template triangularView<Eigen::StrictlyUpper>().setZero();
    } else {
        for (Index i = 0; i < n; ++i) add_product(A.row(i).head(i + 1), B.row(i), C.topRows(i + 1).transpose());
    }
    if (!powers) return;
    for (Index i = 0; i < n; ++i)
        for (Index j = 0; j <= i; ++j) A(i, j) *= (*powers)[i - j];
}

// O += A V, A lower triangular; what stands above its diagonal is not read, so an Inf or NaN of a later token never
// meets an earlier row, not even times zero. In strips of rows: what is left of the triangle on the diagonal is one
// product.
template <class Y, class L, class X>
void add_lower_product(Y&& O, const L& A, const X& V) {
    using T = typename std::decay_t<Y>::Scalar;
    constexpr Index strip = std::is_floating_point_v<T> ? 16 : 1;
    for (Index start = 0; start < A.rows(); start += strip) {
        const Index n = std::min(strip, A.rows() - start);
        if (start > 0) add_product(O.middleRows(start, n), A.block(start, 0, n, start), V.topRows(start));
        for (Index i = start; i < start + n; ++i)
            for (Index j = start; j <= i; ++j) O.row(i) += A(i, j) * V.row(j);
    }
}

}  // namespace causeway::kit
