#include "core/lowrank/problem.hpp"

#include <algorithm>
#include <numeric>

#include "core/base/error.hpp"
#include "core/base/interrupt.hpp"
#include "core/tensor/singular.hpp"

namespace causeway::lowrank {

void kernel_product(const ConstView<double>& Q, const ConstView<double>& K, const Matrix<double>& X, View<double> Y) {
    constexpr Index rows = 128, columns = 512;
    each_block(
        Q.rows(),
        [&](Index i, Index m) {
            Matrix<double> tile;
            auto out = Y.middleRows(i, m);
            out.setZero();
            for (Index j = 0; j < K.rows(); j += columns) {
                const Index n = std::min(columns, K.rows() - j);
                tile.resize(m, n);
                kit::set_product(tile, Q.middleRows(i, m), K.middleRows(j, n).transpose());
                tile = tile.array().exp();
                kit::add_product(out, tile, X.middleRows(j, n));
            }
        },
        rows);
}

void overflows() { fail("q: the factors overflow, expected smaller queries, keys or scale"); }

PseudoInverse pseudo_inverse(const Matrix<double>& X, double tolerance) {
    if (!X.allFinite()) overflows();
    const dense::Room workspace = dense::room(6 * X.size());  // what the decomposition takes
    const dense::Singular svd = dense::singular(X, workspace);
    const Vector& s = svd.s;
    const double min_kept = tolerance * s[0];
    const Vector root = (s.array() > min_kept).select(s.array().rsqrt(), 0.0);
    return {svd.V * root.asDiagonal(), root.asDiagonal() * svd.U.transpose()};
}

Matrix<double> segment_means(const ConstView<double>& X, Index r) {
    Matrix<double> means(r, X.cols());
    for (Index i = 0; i < r; ++i) {
        const Index first = i * X.rows() / r, last = (i + 1) * X.rows() / r;
        means.row(i) = X.middleRows(first, last - first).colwise().mean();
    }
    return means;
}

std::vector<Index> sample(const std::vector<double>& uniforms, Index n, Index r) {
    std::vector<Index> all(static_cast<std::size_t>(n));
    std::iota(all.begin(), all.end(), Index{0});
    for (Index i = 0; i < r; ++i) {
        const auto j = i + static_cast<Index>(uniforms[static_cast<std::size_t>(i)] * static_cast<double>(n - i));
        std::swap(all[static_cast<std::size_t>(i)], all[static_cast<std::size_t>(j)]);
    }
    all.resize(static_cast<std::size_t>(r));
    return all;
}

}  // namespace causeway::lowrank
