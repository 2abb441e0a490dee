#include "core/lowrank/error.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/lowrank/lowrank.hpp"
#include "core/tensor/singular.hpp"

namespace causeway {

using namespace kit;

namespace {

using lowrank::ConstView;
using lowrank::each_block;
using lowrank::Matrix;
using lowrank::Vector;

constexpr Index tile_rows = 128, tile_columns = 512, largest_dense = 2048;

// The matrices whose norms are sought: Δ, M ⊙ Δ, A, M ⊙ A.
constexpr int kinds = 4;
using Vectors = std::array<Vector, kinds>;

// One head: a source of tiles of A and Δ.
struct Pair {
    ConstView<double> Q, K, B, C;  // Q times the scale
    const double* log_rows = nullptr;
    const double* query_block = nullptr;
    const double* key_block = nullptr;
    const double* exact_rows = nullptr;

    Index N() const { return Q.rows(); }

    void tile(Index i, Index m, Index j, Index n, Matrix<double>& A, Matrix<double>& delta) const {
        A.noalias() = Q.middleRows(i, m) * K.middleRows(j, n).transpose();
        A = A.array().exp();
        delta.noalias() = B.middleRows(i, m) * C.middleRows(j, n).transpose();
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
};

// Columns of row i + a in a tile from column j that the mask keeps: 0 … n.
Index kept(Index i, Index a, Index j, Index n) { return std::clamp<Index>(i + a - j + 1, 0, n); }

using Tile = std::function<void(Index i, Index m, Index j, Index n, Matrix<double>& A, Matrix<double>& delta)>;

// y_k = X_k x_k for the matrices of `wanted`, or with their transposes. Tiles are computed once for all of them.
void products(const Tile& tile, Index N, const Vectors& x, Vectors& y, const std::array<bool, kinds>& wanted,
              bool transposed) {
    for (int k = 0; k < kinds; ++k) {
        if (wanted[static_cast<std::size_t>(k)]) y[static_cast<std::size_t>(k)].setZero(N);
    }
    // A task owns a strip of the result.
    each_block(
        N,
        [&](Index own, Index length) {
            Matrix<double> A, delta;
            const Index step = transposed ? tile_rows : tile_columns;
            for (Index other = 0; other < N; other += step) {
                const Index size = std::min(step, N - other);
                const Index i = transposed ? other : own, m = transposed ? size : length, j = transposed ? own : other,
                            n = transposed ? length : size;
                tile(i, m, j, n, A, delta);
                for (std::size_t k = 0; k < kinds; ++k) {
                    if (!wanted[k]) continue;
                    const Matrix<double>& X = k < 2 ? delta : A;
                    const bool masked = k % 2 == 1;
                    if (masked && j > i + m - 1) continue;  // right of the diagonal
                    if (!masked || j + n - 1 <= i) {
                        if (transposed) y[k].segment(j, n).noalias() += X.transpose() * x[k].segment(i, m);
                        else y[k].segment(i, m).noalias() += X * x[k].segment(j, n);
                        continue;
                    }
                    for (Index a = 0; a < m; ++a) {
                        const Index w = kept(i, a, j, n);
                        if (w == 0) continue;
                        if (transposed) y[k].segment(j, w) += X.row(a).head(w).transpose() * x[k][i + a];
                        else y[k][i + a] += X.row(a).head(w).transpose().dot(x[k].segment(j, w));
                    }
                }
            }
        },
        transposed ? tile_columns : tile_rows);
}

struct Norms {
    std::array<double, kinds> value{};
    double residual = 0;
};

// The largest singular values of the wanted matrices: Golub and Kahan's bidiagonalisation of each, from one start.
Norms operator_norms(const Tile& tile, Index N, std::array<bool, kinds> wanted, double tolerance, Index iterations) {
    struct State {
        std::vector<Vector> right, left;
        std::vector<double> alpha, beta;  // B's diagonal, and above it
    };
    std::array<State, kinds> state;
    Norms out;
    Vector start(N);
    random::normals(0, 0, start.data(), N);
    Vectors x, y;
    for (auto& v : x) v = start.normalized();
    const auto orthogonal = [](Vector& v, const std::vector<Vector>& basis) {
        for (int pass = 0; pass < 2; ++pass) {
            for (const Vector& b : basis) v -= b.dot(v) * b;
        }
    };
    auto running = wanted;
    std::array<double, kinds> residuals{};
    for (Index step = 1; std::find(running.begin(), running.end(), true) != running.end(); ++step) {
        products(tile, N, x, y, running, false);
        for (std::size_t k = 0; k < kinds; ++k) {
            if (!running[k]) continue;
            State& s = state[k];
            s.right.push_back(x[k]);
            orthogonal(y[k], s.left);
            const double length = y[k].norm();
            s.alpha.push_back(length);
            if (length > 0) y[k] /= length;
            s.left.push_back(y[k]);
        }
        products(tile, N, y, x, running, true);
        for (std::size_t k = 0; k < kinds; ++k) {
            if (!running[k]) continue;
            State& s = state[k];
            orthogonal(x[k], s.right);
            const double length = x[k].norm();
            const auto size = static_cast<Index>(s.alpha.size());
            // Xᵀ U = V Bᵀ + length v e_lastᵀ: the residual of a singular triple of B is length times the last entry of
            // its left vector.
            const bool last = length <= 1e-15 * s.alpha[0] || step >= std::min(iterations, N);
            if (last || step % 4 == 0) {
                Eigen::MatrixXd bidiagonal = Eigen::MatrixXd::Zero(size, size);
                for (Index i = 0; i < size; ++i) {
                    bidiagonal(i, i) = s.alpha[static_cast<std::size_t>(i)];
                    if (i + 1 < size) bidiagonal(i, i + 1) = s.beta[static_cast<std::size_t>(i)];
                }
                const dense::Singular svd = dense::singular(bidiagonal);
                out.value[k] = svd.s[0];
                residuals[k] = out.value[k] > 0 ? length * std::abs(svd.U(size - 1, 0)) / out.value[k] : 0;
                if (last || residuals[k] <= tolerance) {
                    running[k] = false;
                    s = {};
                    continue;
                }
            }
            s.beta.push_back(length);
            x[k] /= length;
        }
    }
    out.residual = *std::max_element(residuals.begin(), residuals.end());
    return out;
}

// Norms of all four; with the tiles kept in memory where N allows.
struct Both {
    std::array<double, kinds> frobenius{};
    Norms operators;
};
Both norms_of(const Tile& tile, Index N, bool mask, double tolerance, Index iterations) {
    Both out;
    const Index strips = (N + tile_rows - 1) / tile_rows;
    std::vector<std::array<double, kinds>> squares(static_cast<std::size_t>(strips));
    const bool keep = N <= largest_dense;
    Scratch<double> dense_A(keep ? N : 0, keep ? N : 0), dense_delta(keep ? N : 0, keep ? N : 0);
    each_block(
        N,
        [&](Index i, Index m) {
            auto& sum = squares[static_cast<std::size_t>(i / tile_rows)];
            sum = {};
            Matrix<double> A, delta;
            for (Index j = 0; j < N; j += tile_columns) {
                const Index n = std::min(tile_columns, N - j);
                tile(i, m, j, n, A, delta);
                sum[0] += delta.squaredNorm();
                sum[2] += A.squaredNorm();
                for (Index a = 0; a < m; ++a) {
                    const Index w = kept(i, a, j, n);
                    sum[1] += delta.row(a).head(w).squaredNorm();
                    sum[3] += A.row(a).head(w).squaredNorm();
                }
                if (keep) {
                    dense_A.block(i, j, m, n) = A;
                    dense_delta.block(i, j, m, n) = delta;
                }
            }
        },
        tile_rows);
    for (const auto& sum : squares) {
        for (std::size_t k = 0; k < kinds; ++k) out.frobenius[k] += sum[k];
    }
    for (double& x : out.frobenius) x = std::sqrt(x);
    const Tile from_memory = [&](Index i, Index m, Index j, Index n, Matrix<double>& A, Matrix<double>& delta) {
        A = dense_A.block(i, j, m, n);
        delta = dense_delta.block(i, j, m, n);
    };
    std::array<bool, kinds> wanted{};
    for (std::size_t k = 0; k < kinds; ++k) wanted[k] = out.frobenius[k] > 0 && (mask || k % 2 == 0);
    out.operators = operator_norms(keep ? from_memory : tile, N, wanted, tolerance, iterations);
    return out;
}

// diam_i = max_{j,k<=i} |v_j − v_k|. O(N² w).
Vector diameters(const ConstView<double>& V) {
    const Index N = V.rows();
    Vector farthest = Vector::Zero(N);  // max_{j<i} |v_i − v_j|
    const Vector squares = V.rowwise().squaredNorm();
    each_block(
        N,
        [&](Index i, Index m) {
            for (Index j = 0; j < i + m; j += tile_columns) {
                const Index n = std::min(tile_columns, N - j);
                const Matrix<double> inner = V.middleRows(i, m) * V.middleRows(j, n).transpose();
                for (Index a = 0; a < m; ++a) {
                    const Index w = kept(i, a, j, n);
                    if (w == 0) continue;
                    const double most =
                        (squares.segment(j, w).transpose() - 2 * inner.row(a).head(w)).maxCoeff() + squares[i + a];
                    farthest[i + a] = std::max(farthest[i + a], most);
                }
            }
        },
        tile_rows);
    for (Index i = 0; i < N; ++i)
        farthest[i] = std::max(std::sqrt(std::max(0.0, farthest[i])), i > 0 ? farthest[i - 1] : 0);
    return farthest;
}

// Output errors, all but the bounds of A10, whose norms come later. reach: max_i √i diam_i / |d̃_i|; least:
// min_i |d̃_i|.
OutputError output_error(const Pair& p, const ConstView<double>& V, bool mask, double& reach, double& least) {
    const Index N = p.N(), w = V.cols();
    OutputError out;
    const Vector diameter = mask ? diameters(V) : Vector();
    Matrix<double> rows(
        N, 8);  // squares: error, output, error masked, output masked, bound; share; reach, |d̃| and |d̃|/d below
    Vector sums = Vector::Zero(N);
    constexpr double infinity = std::numeric_limits<double>::infinity();
    each_block(
        N,
        [&](Index i, Index m) {
            Matrix<double> A, delta, O = Matrix<double>::Zero(m, w), wrong = O, O_masked = O, wrong_masked = O;
            Vector d = Vector::Zero(m), lost = d, d_masked = d, lost_masked = d, one_norm = d;
            for (Index j = 0; j < N; j += tile_columns) {
                const Index n = std::min(tile_columns, N - j);
                p.tile(i, m, j, n, A, delta);
                const auto v = V.middleRows(j, n);
                O.noalias() += A * v;
                wrong.noalias() += delta * v;
                d += A.rowwise().sum();
                lost += delta.rowwise().sum();
                if (!mask || j > i + m - 1) continue;
                for (Index a = 0; a < m; ++a) {
                    const Index width = kept(i, a, j, n);
                    A.row(a).tail(n - width).setZero();
                    delta.row(a).tail(n - width).setZero();
                }
                O_masked.noalias() += A * v;
                wrong_masked.noalias() += delta * v;
                d_masked += A.rowwise().sum();
                lost_masked += delta.rowwise().sum();
                one_norm += delta.cwiseAbs().rowwise().sum();
            }
            for (Index a = 0; a < m; ++a) {
                auto row = rows.row(i + a);
                row.setZero();
                // ã v − o = (o d − Δ v)/(d − Δ1) − o = (o (Δ1) − Δ v) / d̃ (A9): no cancellation where Δ is small.
                const Eigen::RowVectorXd o = O.row(a) / d[a];
                // A row sum of 0 leaves no output: its error is infinite.
                row[0] = d[a] == lost[a] ? infinity : ((o * lost[a] - wrong.row(a)) / (d[a] - lost[a])).squaredNorm();
                row[1] = o.squaredNorm();
                if (!mask) continue;
                const Eigen::RowVectorXd om = O_masked.row(a) / d_masked[a];
                const double dt = std::abs(d_masked[a] - lost_masked[a]);
                row[3] = om.squaredNorm();
                if (dt == 0) {
                    row[2] = row[4] = row[6] = infinity;
                    continue;
                }
                const double error = ((om * lost_masked[a] - wrong_masked.row(a)) / dt).norm();
                const double bound = one_norm[a] * diameter[i + a] / dt;
                row[2] = error * error;
                row[4] = bound * bound;
                const double rounding = 1e-13 * one_norm[a] / dt * (om.norm() + diameter[i + a] + V.row(i + a).norm());
                row[5] = bound > 10 * rounding ? error / bound : 0;
                row[6] = std::sqrt(static_cast<double>(i + a + 1)) * diameter[i + a] / dt;
                row[7] = dt / d_masked[a];
                sums[i + a] = dt;
            }
        },
        tile_rows);
    out.error = std::sqrt(rows.col(0).sum());
    out.output = std::sqrt(rows.col(1).sum());
    if (!mask) return out;
    out.error_masked = std::sqrt(rows.col(2).sum());
    out.output_masked = std::sqrt(rows.col(3).sum());
    out.row_bound = std::sqrt(rows.col(4).sum());
    out.row_share = rows.col(5).maxCoeff();
    out.least_sum = rows.col(7).minCoeff();
    reach = rows.col(6).maxCoeff();
    least = sums.minCoeff();
    return out;
}

MaskedNorms norms(const std::array<double, kinds>& x) { return {x[0], x[1], x[2], x[3]}; }

double square(double x) { return x * x; }

// The heads as blocks of one matrix: squares add in Frobenius norm, the largest counts in operator norm.
LowRankError together(const std::vector<LowRankError>& heads) {
    LowRankError all = heads[0];
    for (std::size_t h = 1; h < heads.size(); ++h) {
        const LowRankError& one = heads[h];
        for (auto part :
             {&MaskedNorms::error, &MaskedNorms::error_masked, &MaskedNorms::matrix, &MaskedNorms::matrix_masked}) {
            all.frobenius.*part = std::sqrt(square(all.frobenius.*part) + square(one.frobenius.*part));
            all.operator_norm.*part = std::max(all.operator_norm.*part, one.operator_norm.*part);
        }
        all.residual = std::max(all.residual, one.residual);
        if (!one.output) continue;
        for (auto part :
             {&OutputError::error, &OutputError::output, &OutputError::error_masked, &OutputError::output_masked,
              &OutputError::row_bound, &OutputError::frobenius_bound, &OutputError::operator_bound})
            (*all.output).*part = std::sqrt(square((*all.output).*part) + square((*one.output).*part));
        all.output->row_share = std::max(all.output->row_share, one.output->row_share);
        all.output->least_sum = std::min(all.output->least_sum, one.output->least_sum);
    }
    return all;
}

}  // namespace

LowRankErrors lowrank_error(const Tensor& q, const Tensor& k, const Tensor& B, const Tensor& C,
                            const LowRankErrorOptions& o) {
    const auto heads = lowrank::check_inputs(q, k);
    const Index N = heads.N, d = heads.d;
    lowrank::check_rows("B", B, q);
    if (C.shape() != B.shape()) fail("C: ", C.shape().text(), ", expected ", B.shape().text(), " like B");
    lowrank::check_finite("C", C);
    if (o.v) lowrank::check_rows("v", *o.v, q);
    const double scale = lowrank::check_scale(o.scale, d);
    if (!(o.tolerance > 0 && o.tolerance < 1)) fail("tolerance: ", o.tolerance, ", expected a number between 0 and 1");
    if (o.iterations < 1) fail("iterations: ", o.iterations, ", expected 1 or more");
    const auto extra = [&](const char* name) -> std::optional<Tensor> {
        const auto at = o.extras.find(name);
        if (at == o.extras.end()) return {};
        if (at->second.size() != heads.count * N)
            fail(name, ": ", at->second.shape().text(), ", expected a number for each of the ", heads.count * N,
                 " rows of q");
        lowrank::check_finite(name, at->second);
        return at->second.to(DType::f64);
    };
    const auto log_rows = extra("log_rows"), exact_rows = extra("exact_rows");
    const auto query_block = extra("query_block"), key_block = extra("key_block");
    if (query_block.has_value() != key_block.has_value())
        fail(query_block ? "key_block" : "query_block", ": missing, expected beside ",
             query_block ? "query_block" : "key_block");

    const Tensor Q = q.to(DType::f64), K = k.to(DType::f64), b = B.to(DType::f64), c = C.to(DType::f64);
    const Tensor V = o.v ? o.v->to(DType::f64) : Tensor();
    const Index r = B.shape().back(), w = o.v ? o.v->shape().back() : 0;
    Scratch<double> scaled(N, d);
    LowRankErrors out;
    for (Index h = 0; h < heads.count; ++h) {
        scaled = scale * ConstView<double>(Q.data<double>() + h * N * d, N, d);
        const auto rows_of = [&](const std::optional<Tensor>& x) { return x ? x->data<double>() + h * N : nullptr; };
        const Pair pair{{scaled.data(), N, d},
                        {K.data<double>() + h * N * d, N, d},
                        {b.data<double>() + h * N * r, N, r},
                        {c.data<double>() + h * N * r, N, r},
                        rows_of(log_rows),
                        rows_of(query_block),
                        rows_of(key_block),
                        rows_of(exact_rows)};
        const Tile tile = [&](Index i, Index m, Index j, Index n, Matrix<double>& A, Matrix<double>& delta) {
            pair.tile(i, m, j, n, A, delta);
        };
        const Both both = norms_of(tile, N, o.mask, o.tolerance, o.iterations);
        if (std::isfinite(both.frobenius[2]) && !std::isfinite(both.frobenius[0]))
            fail("B: B Cᵀ overflows, expected smaller factors");
        if (!std::isfinite(both.frobenius[2]))
            fail("q: exp(scale q kᵀ) overflows, expected smaller queries, keys or scale");
        LowRankError e{
            norms(both.frobenius), norms(both.operators.value), masking_constant(N), both.operators.residual, {}};
        if (o.v) {
            double reach = 0, least = 0;
            const ConstView<double> v(V.data<double>() + h * N * w, N, w);
            e.output = output_error(pair, v, o.mask, reach, least);
            if (o.mask) {
                const double radius = std::sqrt((v.rowwise() - v.colwise().mean()).rowwise().squaredNorm().maxCoeff());
                e.output->frobenius_bound = reach * e.frobenius.error;
                e.output->operator_bound = least == 0 ? std::numeric_limits<double>::infinity()
                                                      : 2 * std::sqrt(static_cast<double>(N)) * e.operator_constant *
                                                            e.operator_norm.error * radius / least;
            }
        }
        out.heads.push_back(e);
    }
    if (heads.count == 0) fail("q: ", q.shape().text(), ", expected at least one head");
    out.all = together(out.heads);
    return out;
}

MatrixNorms masked_norms(const Tensor& X) {
    if (X.ndim() != 2 || X.shape()[0] != X.shape()[1] || X.size() == 0)
        fail("X: a ", X.summary(), ", expected a square matrix");
    lowrank::check_finite("X", X);
    const Index N = X.shape()[0];
    const Tensor x = X.to(DType::f64);
    const ConstView<double> all(x.data<double>(), N, N);
    // Entries below 1, by a power of two: their squares neither overflow nor vanish.
    int exponent = 0;
    std::frexp(all.cwiseAbs().maxCoeff(), &exponent);
    const auto scaled = [&](double value, int by) { return std::ldexp(std::ldexp(value, by / 2), by - by / 2); };
    const Tile tile = [&](Index i, Index m, Index j, Index n, Matrix<double>& A, Matrix<double>& delta) {
        delta = all.block(i, j, m, n).unaryExpr([&](double value) { return scaled(value, -exponent); });
        A.setZero(m, n);
    };
    Both both = norms_of(tile, N, true, 1e-6, 300);
    for (double& value : both.frobenius) value = scaled(value, exponent);
    for (double& value : both.operators.value) value = scaled(value, exponent);
    return {norms(both.frobenius), norms(both.operators.value)};
}

double masking_constant(Index n) {
    if (n < 1) fail("n: ", n, ", expected 1 or more");
    constexpr double pi = 3.14159265358979323846;
    // Beyond, three terms of the expansion: s_n is the midpoint rule for 1/(π sin), whose error the zeta function gives
    // from the series of 1/sin at its poles (Navot 1962). The next term is below 1e-17 relative.
    constexpr Index summed = 512;
    if (n > summed) {
        constexpr double euler = 0.57721566490153286061;
        const double h = pi / static_cast<double>(n), s = 2 / pi *
                                                          (std::log(static_cast<double>(n)) + euler + std::log(8 / pi) +
                                                           h * h * (1.0 / 144 - h * h * 49 / 345600));
        return (1 + s) / 2;
    }
    double sum = 0;  // of half the terms: they are symmetric
    for (Index m = n / 2 - 1; m >= 0; --m)
        sum += 1 / std::sin(static_cast<double>(2 * m + 1) * pi / static_cast<double>(2 * n));
    return (1 + (2 * sum + static_cast<double>(n % 2)) / static_cast<double>(n)) / 2;
}

Tensor masked_worst_case(Index n, const std::string& which) {
    if (n < 1) fail("n: ", n, ", expected 1 or more");
    if (which != "W" && which != "G" && which != "H") fail("which: \"", which, "\", expected \"W\", \"G\" or \"H\"");
    Tensor X(DType::f64, Shape{n, n});
    const char kind = which[0];
    const double size = static_cast<double>(n);
    constexpr double pi = 3.14159265358979323846;
    each_block(n, [&](Index first, Index rows) {
        for (Index i = first; i < first + rows; ++i) {
            for (Index j = 0; j < n; ++j) {
                const double step = static_cast<double>(i - j);
                X.data<double>()[i * n + j] = kind == 'W'   ? 1 / (size * std::sin(pi * (step + 0.5) / size))
                                              : kind == 'G' ? 1 / (step + 0.5)
                                              : i == j      ? 0
                                                            : 1 / step;
            }
        }
    });
    return X;
}

}  // namespace causeway
