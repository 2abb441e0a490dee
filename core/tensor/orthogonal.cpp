#include "core/tensor/orthogonal.hpp"

#include <Eigen/QR>
#include <algorithm>

namespace causeway::dense {

Orthogonal orthogonal(const Eigen::MatrixXd& A) {
    const Eigen::Index k = std::min(A.rows(), A.cols());
    const Eigen::HouseholderQR<Eigen::MatrixXd> factors(A);
    return {factors.householderQ() * Eigen::MatrixXd::Identity(A.rows(), k),
            factors.matrixQR().topRows(k).triangularView<Eigen::Upper>()};
}

}  // namespace causeway::dense
