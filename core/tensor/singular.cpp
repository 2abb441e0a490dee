#include "core/tensor/singular.hpp"

#include <cmath>
#include <utility>

#include <Eigen/QR>
#include <Eigen/SVD>

#include "core/tensor/random.hpp"

#if !EIGEN_VERSION_AT_LEAST(3, 4, 90)
// Eigen's Jacobi iteration, which small matrices and the leaves of divide and conquer go through, destroys a
// decomposition and makes another in its place; where that finds no memory, it is destroyed a second time, and its
// blocks are freed twice. Here the new one is made first. What is computed is the same, so it does no harm that a
// program which uses Eigen's own beside this library gets this one as well.
namespace Eigen::internal {

template <>
void qr_preconditioner_impl<MatrixXd, ColPivHouseholderQRPreconditioner, PreconditionIfMoreRowsThanCols,
                            true>::allocate(const JacobiSVD<MatrixXd, ColPivHouseholderQRPreconditioner>& svd) {
    if (svd.rows() != m_qr.rows() || svd.cols() != m_qr.cols()) m_qr = QRType(svd.rows(), svd.cols());
    if (svd.m_computeFullU) m_workspace.resize(svd.rows());
    else if (svd.m_computeThinU) m_workspace.resize(svd.cols());
}

template <>
void qr_preconditioner_impl<MatrixXd, ColPivHouseholderQRPreconditioner, PreconditionIfMoreColsThanRows,
                            true>::allocate(const JacobiSVD<MatrixXd, ColPivHouseholderQRPreconditioner>& svd) {
    if (svd.cols() != m_qr.rows() || svd.rows() != m_qr.cols()) m_qr = QRType(svd.cols(), svd.rows());
    if (svd.m_computeFullV) m_workspace.resize(svd.cols());
    else if (svd.m_computeThinV) m_workspace.resize(svd.rows());
    m_adjoint.resize(svd.cols(), svd.rows());
}

}  // namespace Eigen::internal
#endif

namespace causeway::dense {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

Singular divide_and_conquer(const MatrixXd& A) {
    const Eigen::BDCSVD<MatrixXd> f(A, Eigen::ComputeThinU | Eigen::ComputeThinV);
    return {f.matrixU(), f.singularValues(), f.matrixV()};
}

// Whether UᵀU x = x, VᵀV x = x and A V x = U diag(s) x for a random x. Rounding leaves 5e-15 at n = 1500. O(m n).
bool holds(const MatrixXd& A, const Singular& f) {
    constexpr double tolerance = 1e-13;
    VectorXd x(f.s.size());
    random::normals(0, 0, x.data(), x.size());
    x.normalize();
    const VectorXd u = f.U * x, v = f.V * x;
    const auto small = [](double value, double of) { return value <= tolerance * of; };  // false for NaN
    return small((f.U.transpose() * u - x).norm(), 1) && small((f.V.transpose() * v - x).norm(), 1) &&
           small((A * v - f.U * f.s.cwiseProduct(x)).norm(), f.s[0]);
}

// A P = Q [T 0; 0 0] Z with a triangular T of full rank: the singular values of A that are not 0 are those of T. m >=
// n.
Singular without_null_space(const MatrixXd& A) {
    const Eigen::Index n = A.cols();
    const Eigen::CompleteOrthogonalDecomposition<MatrixXd> split(A);
    const Eigen::Index rank = split.rank();
    Singular f{split.householderQ() * MatrixXd::Identity(A.rows(), n), VectorXd::Zero(n),
               split.colsPermutation() * split.matrixZ().transpose()};
    if (rank == 0) return f;
    const MatrixXd T = split.matrixT().topLeftCorner(rank, rank).triangularView<Eigen::Upper>();
    const Singular inner = divide_and_conquer(T);
    f.U.leftCols(rank) *= inner.U;
    f.V.leftCols(rank) *= inner.V;
    f.s.head(rank) = inner.s;
    return f;
}

// Brings the entries below 1, by a power of two that it returns: their squares neither overflow nor vanish.
int scale(MatrixXd& A) {
    int exponent = 0;
    std::frexp(A.cwiseAbs().maxCoeff(), &exponent);
    for (double& x : A.reshaped()) x = std::ldexp(x, -exponent);
    return exponent;
}

void scale_back(VectorXd& s, int exponent) {
    for (double& x : s) x = std::ldexp(x, exponent);
}

// Of a matrix whose entries are below 1.
Singular of_scaled(const MatrixXd& X) {
    Singular f = divide_and_conquer(X);
    if (holds(X, f)) return f;
    if (X.rows() >= X.cols()) return without_null_space(X);
    Singular t = without_null_space(X.transpose());
    return {std::move(t.V), std::move(t.s), std::move(t.U)};
}

}  // namespace

Singular singular(MatrixXd A, Room room) {
    const Eigen::Index m = A.rows(), n = A.cols();
    return interruptible(m, n, std::move(room), [A = std::move(A)]() mutable {
        const int exponent = scale(A);
        Singular f = of_scaled(A);
        scale_back(f.s, exponent);
        return f;
    });
}

VectorXd singular_values(MatrixXd A, Room room) {
    const Eigen::Index m = A.rows(), n = A.cols();
    return interruptible(m, n, std::move(room), [A = std::move(A)]() mutable {
        const int exponent = scale(A);
        VectorXd s = Eigen::BDCSVD<MatrixXd>(A).singularValues();
        if (!s.allFinite()) s = of_scaled(A).s;
        scale_back(s, exponent);
        return s;
    });
}

}  // namespace causeway::dense
