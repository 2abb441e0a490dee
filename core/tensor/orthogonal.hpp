// The QR decomposition of Eigen's matrices, compiled once for all that need orthonormal columns.
#pragma once

#include "core/base/eigen.hpp"
#include "core/tensor/decomposition.hpp"

namespace causeway::dense {

// A = Q R: A m × n, k = min(m, n); Q m × k of orthonormal columns, R k × n upper triangular.
struct Orthogonal {
    Eigen::MatrixXd Q, R;
};

// By Householder's reflections. O(m n k). Stops for interrupt::check(); `room` is held for as long as it computes.
Orthogonal orthogonal(Eigen::MatrixXd A, Room room = {});

}  // namespace causeway::dense
