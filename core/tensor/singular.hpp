// Singular values and vectors of Eigen's matrices. Eigen 3.4's divide and conquer returns NaN or vectors that are not
// orthogonal for some matrices with a large null space, such as a 34 × 34 matrix of ones, and says that all went well.
#pragma once

#include "core/base/eigen.hpp"
#include "core/tensor/decomposition.hpp"

namespace causeway::dense {

// A = U diag(s) Vᵀ: A m × n, k = min(m, n); U m × k, s descending, V n × k.
struct Singular {
    Eigen::MatrixXd U;
    Eigen::VectorXd s;
    Eigen::MatrixXd V;
};

// A of finite entries. Divide and conquer; its result is tried on one vector, and where that fails the null space is
// first split off by a complete orthogonal decomposition, with the singular values there, below rounding, set to 0. O(m
// n k). Both stop for interrupt::check(); `room` is held for as long as they compute.
Singular singular(Eigen::MatrixXd A, Room room = {});
Eigen::VectorXd singular_values(Eigen::MatrixXd A, Room room = {});

}  // namespace causeway::dense
