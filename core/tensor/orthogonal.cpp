#include "core/tensor/orthogonal.hpp"

#include <Eigen/QR>
#include <algorithm>
#include <utility>

namespace causeway::dense {

Orthogonal orthogonal(Eigen::MatrixXd A, Room room) {
    const Index m = A.rows(), n = A.cols();
    return interruptible(m, n, std::move(room), [A = std::move(A)]() -> Orthogonal {
        const Index k = std::min(A.rows(), A.cols());
        const Eigen::HouseholderQR<Eigen::MatrixXd> factors(A);
        return {factors.householderQ() * Eigen::MatrixXd::Identity(A.rows(), k),
                factors.matrixQR().topRows(k).triangularView<Eigen::Upper>()};
    });
}

}  // namespace causeway::dense
