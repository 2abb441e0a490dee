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

namespace causeway {
namespace {

using Vector = Eigen::VectorXd;

double largest_eigenvalue(const Eigen::MatrixXd& symmetric) {
    return Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(symmetric, Eigen::EigenvaluesOnly).eigenvalues().maxCoeff();
}

// y = A x and y = Aᵀ x, over blocks of the entries of y.
Vector times(const Eigen::Map<const dense::RowMajor>& a, const Vector& x) {
    constexpr Index block = 64;
    Vector y(a.rows());
    parallel_for((a.rows() + block - 1) / block, [&](Index b) {
        const Index n = std::min(block, a.rows() - b * block);
        y.segment(b * block, n).noalias() = a.middleRows(b * block, n) * x;
    });
    return y;
}

Vector transpose_times(const Eigen::Map<const dense::RowMajor>& a, const Vector& x) {
    constexpr Index block = 256;
    Vector y(a.cols());
    parallel_for((a.cols() + block - 1) / block, [&](Index b) {
        const Index n = std::min(block, a.cols() - b * block);
        y.segment(b * block, n).noalias() = a.middleCols(b * block, n).transpose() * x;
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
        const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(dense::view(x), Eigen::EigenvaluesOnly);
        return {dense::vector(a, solver.eigenvalues()), Tensor::zeros(a.dtype(), Shape{n}), true};
    }
    const Eigen::EigenSolver<Eigen::MatrixXd> solver(dense::view(x), false);
    if (solver.info() != Eigen::Success) fail("eigvals: the iteration did not converge");
    const Eigen::VectorXcd found = solver.eigenvalues();
    std::vector<std::complex<double>> values(found.begin(), found.end());
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
    } else if (x.rows() < x.cols()) {
        square = largest_eigenvalue(x * x.transpose());
    } else {
        square = largest_eigenvalue(x.transpose() * x);
    }
    return unit * std::sqrt(std::max(0.0, square));
}

}  // namespace causeway
