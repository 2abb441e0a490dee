// Eigen's decompositions for all tests. Each takes a compiler ten seconds and more, so they are compiled in one file.
#pragma once

#include <Eigen/Core>

namespace causeway::test {

// Largest first.
Eigen::VectorXd singular_values(const Eigen::MatrixXd& x);

// Of a symmetric matrix, smallest first, and the eigenvectors as columns.
struct Spectrum {
    Eigen::VectorXd values;
    Eigen::MatrixXd vectors;
};
Spectrum spectrum_of(const Eigen::MatrixXd& x);

// Eigenvalues of the symmetric tridiagonal matrix with this diagonal and the one below it, smallest first.
Eigen::VectorXd tridiagonal_eigenvalues(const Eigen::VectorXd& diagonal, const Eigen::VectorXd& below);

}  // namespace causeway::test
