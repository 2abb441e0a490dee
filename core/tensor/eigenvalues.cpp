// Eigenvalues, and the operator norm as the largest eigenvalue of a Gram matrix.
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include "core/base/interrupt.hpp"
#include "core/base/parallel.hpp"
#include "core/tensor/dense.hpp"
#include "core/tensor/linalg.hpp"
#include "core/tensor/product.hpp"

namespace causeway {
namespace {

using Vector = Eigen::VectorXd;

// Of the decompositions below only the steps that give eigenvalues: Eigen's solvers also compile what gives vectors,
// which takes twice as long.

// Ascending. The matrix is scaled, as Eigen's solver does, so that no square overflows. `caller` is named in the
// error.
Vector symmetric_eigenvalues(const Eigen::MatrixXd& symmetric, const char* caller) {
    const double unit = symmetric.cwiseAbs().maxCoeff();
    if (unit == 0) return Vector::Zero(symmetric.rows());
    if (symmetric.rows() == 1) return symmetric.diagonal();
    const Eigen::Tridiagonalization<Eigen::MatrixXd> tridiagonal(symmetric / unit);
    Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver;
    solver.computeFromTridiagonal(Vector(tridiagonal.diagonal()), Vector(tridiagonal.subDiagonal()),
                                  Eigen::EigenvaluesOnly);
    if (solver.info() != Eigen::Success) fail(caller, ": the iteration did not converge");
    return unit * solver.eigenvalues();
}

// In the order of the blocks of the real Schur form, complex ones in pairs. False where the iteration does not
// converge.
bool general_eigenvalues(const Eigen::MatrixXd& a, std::vector<std::complex<double>>& values) {
    const double unit = a.cwiseAbs().maxCoeff();
    values.assign(static_cast<std::size_t>(a.rows()), 0);
    if (unit == 0) return true;
    const Eigen::HessenbergDecomposition<Eigen::MatrixXd> hessenberg(a / unit);
    Eigen::RealSchur<Eigen::MatrixXd> schur(a.rows());
    schur.computeFromHessenberg(Eigen::MatrixXd(hessenberg.matrixH()), Eigen::MatrixXd(), false);
    if (schur.info() != Eigen::Success) return false;
    const Eigen::MatrixXd& T = schur.matrixT();
    for (Index i = 0; i < T.rows(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (i + 1 == T.rows() || T(i + 1, i) == 0) {
            values[at] = unit * T(i, i);
            continue;
        }
        // [a b; c d] with (a - d)² + 4 b c < 0: (a + d)/2 ± i √(-bc - ((a - d)/2)²), the root without overflow.
        const double half = (T(i, i) - T(i + 1, i + 1)) / 2;
        const double largest = std::max({std::abs(half), std::abs(T(i + 1, i)), std::abs(T(i, i + 1))});
        const double root =
            largest *
            std::sqrt(std::abs(half / largest * (half / largest) + T(i + 1, i) / largest * (T(i, i + 1) / largest)));
        values[at] = unit * std::complex<double>(T(i + 1, i + 1) + half, root);
        values[at + 1] = std::conj(values[at]);
        ++i;
    }
    return true;
}

// y = A x and y = Aᵀ x, over blocks of the entries of y.
Vector times(const Eigen::Map<const dense::RowMajor>& a, const Vector& x) {
    constexpr Index block = 64;
    Vector y(a.rows());
    parallel_for((a.rows() + block - 1) / block, [&](Index b) {
        const Index n = std::min(block, a.rows() - b * block);
        matrix_product<double, false, true>(y.data() + b * block, n, x.data(), a.cols(),
                                            a.data() + b * block * a.cols(), a.cols(), 1, n, a.cols(), false);
    });
    return y;
}

Vector transpose_times(const Eigen::Map<const dense::RowMajor>& a, const Vector& x) {
    constexpr Index block = 256;
    Vector y(a.cols());
    parallel_for((a.cols() + block - 1) / block, [&](Index b) {
        const Index n = std::min(block, a.cols() - b * block);
        matrix_product<double>(y.data() + b * block, n, x.data(), a.rows(), a.data() + b * block, a.cols(), 1, n,
                               a.rows(), false);
    });
    return y;
}

// Largest eigenvalue of AᵀA by Lanczos' iteration with full reorthogonalisation: in the orthonormal basis Q of the
// Krylov space of the start vector, Qᵀ AᵀA Q is tridiagonal, with `diagonal` and `beside`; its largest eigenvalue grows
// towards the one sought, and |last entry of its eigenvector| * beside bounds the distance to an eigenvalue.
double lanczos(const Eigen::Map<const dense::RowMajor>& a) {
    constexpr double tolerance = 1e-10;
    const Index n = a.cols();
    std::vector<Buffer<double>> basis;
    const auto known = [&](std::size_t i) { return Eigen::Map<Vector>(basis[i].data(), n); };
    std::vector<double> diagonal, beside;
    Vector q(n);  // to start: entries all different, so that no symmetry of A hides a direction
    for (Index i = 0; i < n; ++i) q[i] = 1 + std::sin(static_cast<double>(i + 1) * 1.6180339887498949);
    q.normalize();
    for (Index step = 1;; ++step) {
        interrupt::check();
        basis.emplace_back(n);
        known(basis.size() - 1) = q;
        Vector next = transpose_times(a, times(a, q));
        diagonal.push_back(q.dot(next));
        for (int pass = 0; pass < 2; ++pass) {
            for (std::size_t i = 0; i < basis.size(); ++i) next -= known(i).dot(next) * known(i);
        }
        const double length = next.norm();
        const auto size = static_cast<Index>(diagonal.size());
        const bool last = step == n || length <= 1e-14 * std::abs(diagonal.front());
        if (last || step % 8 == 0) {
            Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> small;
            small.computeFromTridiagonal(Eigen::Map<const Vector>(diagonal.data(), size),
                                         Eigen::Map<const Vector>(beside.data(), size - 1));
            const double value = small.eigenvalues()[size - 1];
            const double distance = length * std::abs(small.eigenvectors()(size - 1, size - 1));
            if (last || distance <= tolerance * value) return value;
        }
        beside.push_back(length);
        q = next / length;
    }
}

// A Aᵀ or Aᵀ A, whichever is smaller; their eigenvalues other than 0 are the same.
dense::RowMajor smaller_gram(const Eigen::Map<const dense::RowMajor>& a) {
    const Index m = a.rows(), n = a.cols(), size = std::min(m, n);
    dense::RowMajor gram(size, size);
    if (m < n) {
        matrix_product<double, false, true>(gram.data(), m, a.data(), n, a.data(), n, m, m, n, false);
    } else {
        matrix_product<double, true, false>(gram.data(), n, a.data(), n, a.data(), n, n, n, m, false);
    }
    return gram;
}

bool is_symmetric(const Tensor& x) {
    const auto a = dense::view(x);
    for (Index i = 0; i < a.rows(); ++i) {
        for (Index j = 0; j < i; ++j) {
            if (a(i, j) != a(j, i)) return false;
        }
    }
    return true;
}

}  // namespace

Eigenvalues eigvals(const Tensor& a) {
    const Tensor x = dense::check_square(a, "eigvals");
    const Index n = x.shape()[0];
    if (n == 0) return {Tensor::zeros(a.dtype(), Shape{0}), Tensor::zeros(a.dtype(), Shape{0}), true};
    const auto workspace = dense::room(x, 3);
    if (is_symmetric(x)) {
        const Vector values = dense::interruptible(
            n, n, workspace, [A = Eigen::MatrixXd(dense::view(x))] { return symmetric_eigenvalues(A, "eigvals"); });
        return {dense::vector(a, values), Tensor::zeros(a.dtype(), Shape{n}), true};
    }
    auto values = dense::interruptible(n, n, workspace, [A = Eigen::MatrixXd(dense::view(x))] {
        std::vector<std::complex<double>> unsorted;
        if (!general_eigenvalues(A, unsorted)) fail("eigvals: the iteration did not converge");
        return unsorted;
    });
    std::sort(values.begin(), values.end(),
              [](auto y, auto z) { return y.real() != z.real() ? y.real() < z.real() : y.imag() < z.imag(); });
    const Eigen::Map<const Eigen::VectorXcd> sorted(values.data(), n);
    return {dense::vector(a, sorted.real()), dense::vector(a, sorted.imag()), false};
}

double opnorm(const Tensor& a) {
    const Tensor original = dense::check_matrix(a, "opnorm");
    if (original.size() == 0) return 0;
    // Scaled to a largest entry of 1, so that the squares in the Gram matrix stay in range.
    const double unit = dense::view(original).cwiseAbs().maxCoeff();
    if (unit == 0) return 0;
    const auto workspace = dense::room(original, 1);
    const dense::RowMajor scaled = dense::view(original) / unit;
    const Eigen::Map<const dense::RowMajor> x(scaled.data(), scaled.rows(), scaled.cols());
    constexpr Index small = 512;
    double square = 0;
    if (std::min(x.rows(), x.cols()) > small) {
        square = lanczos(x);
    } else {
        square = symmetric_eigenvalues(smaller_gram(x), "opnorm").maxCoeff();
    }
    return unit * std::sqrt(std::max(0.0, square));
}

}  // namespace causeway
