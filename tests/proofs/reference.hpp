// Small algorithms as the proofs write them, on any scalar: Float64, Float32 where rounding is the claim, complex for
// derivatives, Counted for counts. Plain loops: nothing is shared with what they check.
#pragma once

#include <Eigen/Core>
#include <cmath>
#include <complex>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/tensor/tensor.hpp"
#include "tests/proofs/claims.hpp"

namespace causeway::proofs {

template <class T>
using Mat = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
template <class T>
using Inputs = std::vector<Mat<T>>;
using Matrix = Mat<double>;

template <class T>
Mat<T> zeros(Index rows, Index cols) {
    return Mat<T>::Constant(rows, cols, T(0));
}

// A B, one multiply and one add a term.
template <class A, class B>
auto product(const Eigen::MatrixBase<A>& a, const Eigen::MatrixBase<B>& b) {
    using T = typename A::Scalar;
    const Mat<T> x = a, y = b;
    Mat<T> out = zeros<T>(x.rows(), y.cols());
    for (Index i = 0; i < x.rows(); ++i)
        for (Index k = 0; k < x.cols(); ++k)
            for (Index j = 0; j < y.cols(); ++j) out(i, j) += x(i, k) * y(k, j);
    return out;
}

// Products, sums and quotients of matrices whose shapes allow them; std::invalid_argument where they do not.
template <class T>
void fit(bool fits, const Mat<T>& A, const Mat<T>& B) {
    if (!fits) throw std::invalid_argument(sentence(A.rows(), "×", A.cols(), " against ", B.rows(), "×", B.cols()));
}
template <class T>
Mat<T> times(const Mat<T>& A, const Mat<T>& B) {
    return fit(A.cols() == B.rows(), A, B), product(A, B);
}
template <class T>
Mat<T> plus(const Mat<T>& A, const Mat<T>& B) {
    return fit(A.rows() == B.rows() && A.cols() == B.cols(), A, B), A + B;
}
template <class T>
Mat<T> over(const Mat<T>& A, const Mat<T>& B) {
    return fit(A.rows() == B.rows() && A.cols() == B.cols(), A, B), A.cwiseQuotient(B);
}

// Pairs of b and d_v, of 1, 2, 3, 4, 6 each, for which run(b, dv, width) comes to a line that does not conform: b = d_v
// with ones of the printed width b; all, with ones of width d_v.
struct Stopped {
    int square = 0, repaired = 0;
};
template <class F>
Stopped stopped(F&& run) {
    Stopped out;
    for (Index b : {1, 2, 3, 4, 6})
        for (Index dv : {1, 2, 3, 4, 6}) {
            const auto stops = [&](Index width) {
                try {
                    return run(b, dv, width), false;
                } catch (const std::invalid_argument&) {
                    return true;
                }
            };
            if (b == dv) out.square += stops(b);
            out.repaired += stops(dv);
        }
    return out;
}

// What stands on and below the diagonal (on = 0) or strictly below it (on = -1).
template <class T>
Mat<T> lower(Mat<T> A, Index on = 0) {
    for (Index i = 0; i < A.rows(); ++i)
        for (Index j = i + 1 + on; j < A.cols(); ++j) A(i, j) = T(0);
    return A;
}

// Row t times factor t.
template <class T>
Mat<T> scale_rows(const Mat<T>& factors, Mat<T> A) {
    for (Index t = 0; t < A.rows(); ++t) A.row(t) *= factors(t, 0);
    return A;
}

// [V, 1].
template <class T>
Mat<T> with_ones(const Mat<T>& V) {
    Mat<T> out = Mat<T>::Constant(V.rows(), V.cols() + 1, T(1));
    out.leftCols(V.cols()) = V;
    return out;
}

// (I + L) X = R by forward substitution, L strictly lower: n(n-1)/2 multiply-adds a column.
template <class T>
Mat<T> substitute(const Mat<T>& L, Mat<T> R) {
    for (Index t = 0; t < R.rows(); ++t)
        for (Index j = 0; j < t; ++j) R.row(t) -= L(t, j) * R.row(j);
    return R;
}

// Λ_tj = Π_{s=j+1..t} a_s for j <= t, else 0; e_t = Π_{s<=t} a_s; w_j = Λ_{last,j}. Running products (E4).
template <class T>
struct Gates {
    Mat<T> lambda, e, w;
    explicit Gates(const Mat<T>& a) : lambda(zeros<T>(a.rows(), a.rows())), e(a) {
        for (Index t = 0; t < a.rows(); ++t) {
            for (Index j = 0; j < t; ++j) lambda(t, j) = lambda(t - 1, j) * a(t, 0);
            lambda(t, t) = T(1);
            if (t > 0) e(t, 0) = e(t - 1, 0) * a(t, 0);
        }
        w = lambda.row(a.rows() - 1).transpose();
    }
};

// The inputs of the gated delta rule by position. a, β: n × 1; S_0: dk × dv.
enum : std::size_t { iQ, iK, iV, iA, iBeta, iS };

template <class T>
struct Output {
    Mat<T> O, S;
};

// F7 as gates prints it: S_t = a_t (I - β_t k_t k_tᵀ) S_{t-1} + β_t k_t v_tᵀ, o_t = S_tᵀ q_t.
template <class T>
Output<T> recurrence(const Inputs<T>& x) {
    Output<T> out{zeros<T>(x[iQ].rows(), x[iV].cols()), x[iS]};
    for (Index t = 0; t < x[iQ].rows(); ++t) {
        const T beta = x[iBeta](t, 0), a = x[iA](t, 0);
        const Mat<T> k = x[iK].row(t).transpose();
        const Mat<T> erase = Mat<T>::Identity(k.rows(), k.rows()) - beta * product(k, k.transpose());
        out.S = a * product(erase, out.S) + beta * product(k, x[iV].row(t));
        out.O.row(t) = product(x[iQ].row(t), out.S);
    }
    return out;
}

// Normalised causal attention by its definition: y_t = Σ_{j<=t} Λ_tj (q_t·k_j) v_j / (Σ_{j<=t} Λ_tj q_t·k_j + eps).
template <class T>
Mat<T> normalised(const Mat<T>& Q, const Mat<T>& K, const Mat<T>& V, const Mat<T>& a, double eps = 0) {
    Mat<T> Y = product(Gates<T>(a).lambda.cwiseProduct(product(Q, K.transpose())), with_ones(V));
    for (Index t = 0; t < Y.rows(); ++t) Y.row(t) /= Y(t, V.cols()) + T(eps);
    return Y.leftCols(V.cols());
}

// Derivatives of f, a real analytic function of all entries of x, by the complex step f(x + ih): Im f / h with no
// subtraction, so to rounding. f is called with Inputs<std::complex<double>>.
template <class F>
Inputs<double> complex_step(const Inputs<double>& x, F&& f) {
    using C = std::complex<double>;
    const double h = 1e-30;
    Inputs<C> z;
    for (const auto& m : x) z.push_back(m.cast<C>());
    Inputs<double> out = x;
    for (std::size_t i = 0; i < x.size(); ++i)
        for (Index k = 0; k < x[i].size(); ++k) {
            C& entry = z[i].data()[k];
            entry = C(x[i].data()[k], h);
            out[i].data()[k] = std::imag(f(z)) / h;
            entry = x[i].data()[k];
        }
    return out;
}

// The same by (f(x + h) - f(x - h)) / 2h: error O(h²) and u|f|/h.
template <class F>
Inputs<double> central_differences(Inputs<double> x, F&& f, double h = 1e-5) {
    Inputs<double> out = x;
    for (std::size_t i = 0; i < x.size(); ++i)
        for (Index k = 0; k < x[i].size(); ++k) {
            double& entry = x[i].data()[k];
            const double at = entry;
            entry = at + h;
            const double above = f(x);
            entry = at - h;
            out[i].data()[k] = (above - f(x)) / (2 * h);
            entry = at;
        }
    return out;
}

// Σ A ⊙ B.
template <class T>
T inner(const Mat<T>& A, const Mat<T>& B) {
    T sum(0);
    for (Index i = 0; i < A.rows(); ++i)
        for (Index j = 0; j < A.cols(); ++j) sum += A(i, j) * B(i, j);
    return sum;
}

// ‖got - want‖_F / ‖want‖_F; NaN where anything is NaN, Inf where shapes differ.
template <class T>
double relative(const Mat<T>& got, const Matrix& want) {
    if (got.rows() != want.rows() || got.cols() != want.cols()) return INFINITY;
    const double difference = (got.template cast<double>() - want).norm();
    return difference == 0 ? 0 : difference / want.norm();
}

class Random {
public:
    explicit Random(unsigned seed) : generator_(seed) {}

    Matrix normal(Index rows, Index cols) {
        std::normal_distribution<double> draw;
        return Matrix::NullaryExpr(rows, cols, [&] { return draw(generator_); });
    }
    Matrix uniform(Index rows, Index cols, double low, double high) {
        std::uniform_real_distribution<double> draw(low, high);
        return Matrix::NullaryExpr(rows, cols, [&] { return draw(generator_); });
    }
    // |normal| + 0.1: positive features, as a divided form needs.
    Matrix positive(Index rows, Index cols) { return (normal(rows, cols).array().abs() + 0.1).matrix(); }
    // Rows of length 1.
    Matrix unit_rows(Index rows, Index cols) { return normal(rows, cols).rowwise().normalized(); }

private:
    std::mt19937_64 generator_;
};

inline Tensor tensor(const Matrix& A, DType type = DType::f64) {
    Tensor out(type, {A.rows(), A.cols()});
    for (Index i = 0; i < A.rows(); ++i)
        for (Index j = 0; j < A.cols(); ++j) out.set(i * A.cols() + j, A(i, j));
    return out;
}

inline Tensor vector(const Matrix& a, DType type = DType::f64) { return tensor(a, type).reshape({a.size()}); }

// The last two dimensions, where those before them are 1.
inline Matrix matrix(const Tensor& A) {
    Matrix out(A.shape().back(1), A.shape().back(0));
    for (Index i = 0; i < out.rows(); ++i)
        for (Index j = 0; j < out.cols(); ++j) out(i, j) = A.get(i * out.cols() + j);
    return out;
}

// Entries rounded to Float32.
inline Matrix rounded(const Matrix& A) { return A.cast<float>().cast<double>(); }

}  // namespace causeway::proofs
