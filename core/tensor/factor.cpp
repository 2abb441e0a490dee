// QR, Cholesky, the inverse and the trace.
#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <algorithm>
#include <limits>

#include "core/tensor/dense.hpp"
#include "core/tensor/linalg.hpp"
#include "core/tensor/orthogonal.hpp"

namespace causeway {
namespace {

Eigen::MatrixXd inverse_of(const Eigen::MatrixXd& A) {
    const Eigen::PartialPivLU<Eigen::MatrixXd> factors(A);
    // An exactly singular matrix has a zero pivot; one that is so to working precision, a condition beyond 1 / epsilon.
    const bool regular =
        (factors.matrixLU().diagonal().array() != 0).all() && factors.rcond() >= std::numeric_limits<double>::epsilon();
    if (!regular) fail("inv: the matrix is singular");
    return factors.inverse();
}

}  // namespace

Qr qr(const Tensor& a) {
    const Tensor x = dense::check_matrix(a, "qr");
    const Index m = x.shape()[0], n = x.shape()[1], k = std::min(m, n);
    if (x.size() == 0) return {Tensor::zeros(a.dtype(), Shape{m, k}), Tensor::zeros(a.dtype(), Shape{k, n})};
    const auto workspace = dense::room(x, 3);
    const dense::Orthogonal factors = dense::orthogonal(dense::view(x), workspace);
    return {dense::matrix(a, factors.Q), dense::matrix(a, factors.R)};
}

Tensor cholesky(const Tensor& a) {
    const Tensor x = dense::check_square(a, "cholesky");
    if (x.size() == 0) return Tensor::zeros(a.dtype(), x.shape());
    const auto workspace = dense::room(x, 2);
    const auto matrix = dense::view(x);
    const double rounding = a.dtype() == DType::f64 ? 1e-12 : 1e-5;
    if (!((matrix - matrix.transpose()).cwiseAbs().maxCoeff() <= rounding * matrix.cwiseAbs().maxCoeff()))
        fail("cholesky: the matrix is not symmetric");
    const Eigen::MatrixXd lower = dense::interruptible(matrix.rows(), matrix.cols(), workspace,
                                                       [A = Eigen::MatrixXd(matrix)]() -> Eigen::MatrixXd {
                                                           const Eigen::LLT<Eigen::MatrixXd> factor(A);
                                                           if (factor.info() != Eigen::Success)
                                                               fail("cholesky: the matrix is not positive definite");
                                                           return factor.matrixL();
                                                       });
    return dense::matrix(a, lower);
}

Tensor inv(const Tensor& a) {
    const Tensor x = dense::check_square(a, "inv");
    if (x.size() == 0) return Tensor::zeros(a.dtype(), x.shape());
    const auto workspace = dense::room(x, 3);
    const Index n = x.shape()[0];
    const Eigen::MatrixXd inverse =
        dense::interruptible(n, n, workspace, [A = Eigen::MatrixXd(dense::view(x))] { return inverse_of(A); });
    return dense::matrix(a, inverse);
}

double tr(const Tensor& a) {
    if (a.ndim() != 2 || a.shape()[0] != a.shape()[1]) fail("tr: expected a square matrix, got a ", a.summary());
    double sum = 0;
    for (Index i = 0; i < a.shape()[0]; ++i) sum += a.get(i * (a.shape()[0] + 1));
    return sum;
}

}  // namespace causeway
