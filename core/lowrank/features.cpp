#include "core/lowrank/features.hpp"

#include "core/tensor/orthogonal.hpp"

namespace causeway::lowrank {

Matrix<double> directions(const Random& random, Index m, Index d, bool orthogonal) {
    Matrix<double> omega = random.normals(0, m, d);
    if (!orthogonal || d == 1) return omega;
    const Index groups = (m + d - 1) / d;
    const Matrix<double> gaussian = random.normals(1, groups * d, d);
    for (Index g = 0; g < groups; ++g) {
        const dense::Orthogonal qr = dense::orthogonal(gaussian.middleRows(g * d, d));
        for (Index i = 0; i < std::min(d, m - g * d); ++i) {
            // The sign of the diagonal makes the rotation uniform (Mezzadri 2007).
            const double sign = qr.R(i, i) < 0 ? -1 : 1;
            omega.row(g * d + i) = sign * omega.row(g * d + i).norm() * qr.Q.col(i).transpose();
        }
    }
    return omega;
}

}  // namespace causeway::lowrank
