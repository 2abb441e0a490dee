// The QR decomposition of Eigen's matrices, compiled once for all that need orthonormal columns.
#pragma once

#include <Eigen/Core>

namespace causeway::dense {

// A = Q R: A m × n, k = min(m, n); Q m × k of orthonormal columns, R k × n upper triangular.
struct Orthogonal {
    Eigen::MatrixXd Q, R;
};

// By Householder's reflections. O(m n k).
Orthogonal orthogonal(const Eigen::MatrixXd& A);

}  // namespace causeway::dense
