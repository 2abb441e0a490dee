#include "core/lowrank/output_error.hpp"

#include <limits>

#include "core/lowrank/masked_norms.hpp"

namespace causeway::lowrank {

void Pair::tile(Index i, Index m, Index j, Index n, Matrix<double>& A, Matrix<double>& delta) const {
    A = kit::product(Q.middleRows(i, m), K.middleRows(j, n).transpose());
    A = A.array().exp();
    delta = kit::product(B.middleRows(i, m), C.middleRows(j, n).transpose());
    if (log_rows) {
        for (Index a = 0; a < m; ++a) delta.row(a) *= std::exp(log_rows[i + a]);
    }
    delta = A - delta;
    if (exact_rows) {
        for (Index a = 0; a < m; ++a) {
            if (exact_rows[i + a] != 0) delta.row(a).setZero();
        }
    }
    if (!query_block) return;
    for (Index a = 0; a < m; ++a) {
        for (Index b = 0; b < n; ++b) {
            if (query_block[i + a] == key_block[j + b]) delta(a, b) = 0;
        }
    }
}

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// diam_i = max_{j,k<=i} |v_j − v_k|. O(N² w).
Vector diameters(const ConstView<double>& V) {
    const Index N = V.rows();
    Vector farthest = Vector::Zero(N);  // max_{j<i} |v_i − v_j|
    const Vector squares = V.rowwise().squaredNorm();
    const auto strip = [&](Index i, Index m) {
        for (Index j = 0; j < i + m; j += tile_columns) {
            const Index n = std::min(tile_columns, N - j);
            const Matrix<double> inner = kit::product(V.middleRows(i, m), V.middleRows(j, n).transpose());
            for (Index a = 0; a < m; ++a) {
                const Index w = kept(i, a, j, n);
                if (w == 0) continue;
                const double largest =
                    (squares.segment(j, w).transpose() - 2 * inner.row(a).head(w)).maxCoeff() + squares[i + a];
                farthest[i + a] = std::max(farthest[i + a], largest);
            }
        }
    };
    each_block(N, strip, tile_rows);
    for (Index i = 0; i < N; ++i)
        farthest[i] = std::max(std::sqrt(std::max(0.0, farthest[i])), i > 0 ? farthest[i - 1] : 0);
    return farthest;
}

// What a row contributes: the columns of a table with a row for each token.
enum Column { error, output, error_masked, output_masked, bound, share, reach, relative_sum, sum, columns };

// Sums over the keys for the rows i ... i + m - 1, without the mask and with it: A v, Δ v, A 1, Δ 1.
struct RowSums {
    Matrix<double> A, delta, O, wrong, O_masked, wrong_masked;
    Vector d, lost, d_masked, lost_masked, one_norm;

    RowSums(Index m, Index w)
        : O(Matrix<double>::Zero(m, w)),
          wrong(O),
          O_masked(O),
          wrong_masked(O),
          d(Vector::Zero(m)),
          lost(d),
          d_masked(d),
          lost_masked(d),
          one_norm(d) {}

    void add_tile(const Pair& p, const ConstView<double>& V, Index i, Index m, Index j, Index n, bool mask) {
        p.tile(i, m, j, n, A, delta);
        const auto v = V.middleRows(j, n);
        kit::add_product(O, A, v);
        kit::add_product(wrong, delta, v);
        d += A.rowwise().sum();
        lost += delta.rowwise().sum();
        if (!mask || j > i + m - 1) return;
        for (Index a = 0; a < m; ++a) {
            const Index width = kept(i, a, j, n);
            A.row(a).tail(n - width).setZero();
            delta.row(a).tail(n - width).setZero();
        }
        kit::add_product(O_masked, A, v);
        kit::add_product(wrong_masked, delta, v);
        d_masked += A.rowwise().sum();
        lost_masked += delta.rowwise().sum();
        one_norm += delta.cwiseAbs().rowwise().sum();
    }

    // ã v − o = (o d − Δ v)/(d − Δ1) − o = (o (Δ1) − Δ v) / d̃ (A9): no cancellation where Δ is small. A row sum of 0
    // leaves no output: its error is infinite.
    template <class Row>
    void write_unmasked(Index a, Row&& row) const {
        const Eigen::RowVectorXd o = O.row(a) / d[a];
        row[error] = d[a] == lost[a] ? infinity : ((o * lost[a] - wrong.row(a)) / (d[a] - lost[a])).squaredNorm();
        row[output] = o.squaredNorm();
    }

    // Of token i, the row a, with the diameter of the values up to it and the length of its own.
    template <class Row>
    void write_masked(Index i, Index a, double diameter, double length, Row&& row) const {
        const Eigen::RowVectorXd o = O_masked.row(a) / d_masked[a];
        const double dt = std::abs(d_masked[a] - lost_masked[a]);
        row[output_masked] = o.squaredNorm();
        if (dt == 0) {
            row[error_masked] = row[bound] = row[reach] = infinity;
            return;
        }
        const double err = ((o * lost_masked[a] - wrong_masked.row(a)) / dt).norm();
        const double limit = one_norm[a] * diameter / dt;
        row[error_masked] = err * err;
        row[bound] = limit * limit;
        const double rounding = 1e-13 * one_norm[a] / dt * (o.norm() + diameter + length);
        row[share] = limit > 10 * rounding ? err / limit : 0;
        row[reach] = std::sqrt(static_cast<double>(i + 1)) * diameter / dt;
        row[relative_sum] = dt / d_masked[a];
        row[sum] = dt;
    }
};

}  // namespace

OutputErrors output_errors(const Pair& p, const ConstView<double>& V, bool mask) {
    const Index N = p.N();
    const Vector diameter = mask ? diameters(V) : Vector();
    Matrix<double> rows = Matrix<double>::Zero(N, columns);  // squares where the result is a root of a sum
    const auto strip = [&](Index i, Index m) {
        RowSums sums(m, V.cols());
        for (Index j = 0; j < N; j += tile_columns) sums.add_tile(p, V, i, m, j, std::min(tile_columns, N - j), mask);
        for (Index a = 0; a < m; ++a) {
            sums.write_unmasked(a, rows.row(i + a));
            if (mask) sums.write_masked(i + a, a, diameter[i + a], V.row(i + a).norm(), rows.row(i + a));
        }
    };
    each_block(N, strip, tile_rows);
    OutputErrors out;
    const auto root = [&](Column c) { return std::sqrt(rows.col(c).sum()); };
    out.errors.error = root(error);
    out.errors.output = root(output);
    if (!mask) return out;
    out.errors.error_masked = root(error_masked);
    out.errors.output_masked = root(output_masked);
    out.errors.row_bound = root(bound);
    out.errors.row_share = rows.col(share).maxCoeff();
    out.errors.min_sum = rows.col(relative_sum).minCoeff();
    out.reach = rows.col(reach).maxCoeff();
    out.min_sum = rows.col(sum).minCoeff();
    return out;
}

}  // namespace causeway::lowrank
