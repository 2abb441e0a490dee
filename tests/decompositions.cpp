#include "tests/decompositions.hpp"

#include <Eigen/Eigenvalues>
#include <Eigen/SVD>

namespace causeway::test {

Eigen::VectorXd singular_values(const Eigen::MatrixXd& x) {
    return Eigen::JacobiSVD<Eigen::MatrixXd>(x).singularValues();
}

Spectrum spectrum_of(const Eigen::MatrixXd& x) {
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(x);
    return {solver.eigenvalues(), solver.eigenvectors()};
}

Eigen::VectorXd tridiagonal_eigenvalues(const Eigen::VectorXd& diagonal, const Eigen::VectorXd& below) {
    Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver;
    solver.computeFromTridiagonal(diagonal, below, Eigen::EigenvaluesOnly);
    return solver.eigenvalues();
}

}  // namespace causeway::test
