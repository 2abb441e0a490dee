#include "core/lowrank/masked_norms.hpp"

#include <cmath>

#include "core/tensor/singular.hpp"

namespace causeway::lowrank {
namespace {

using Vectors = std::array<Vector, kinds>;

// y += X x, or Xᵀ x, for a tile X at row i and column j; `masked`: of M ⊙ X.
void add_tile_product(const Matrix<double>& X, Index i, Index j, bool masked, bool transposed, const Vector& x,
                      Vector& y) {
    const Index m = X.rows(), n = X.cols();
    if (masked && j > i + m - 1) return;  // right of the diagonal
    if (!masked || j + n - 1 <= i) {
        if (transposed) y.segment(j, n).noalias() += X.transpose() * x.segment(i, m);
        else y.segment(i, m).noalias() += X * x.segment(j, n);
        return;
    }
    for (Index a = 0; a < m; ++a) {
        const Index w = kept(i, a, j, n);
        if (w == 0) continue;
        if (transposed) y.segment(j, w) += X.row(a).head(w).transpose() * x[i + a];
        else y[i + a] += X.row(a).head(w).transpose().dot(x.segment(j, w));
    }
}

// y_k = X_k x_k for the matrices of `wanted`, or with their transposes. Tiles are computed once for all of them.
void products(const Tile& tile, Index N, const Vectors& x, Vectors& y, const std::array<bool, kinds>& wanted,
              bool transposed) {
    for (std::size_t k = 0; k < kinds; ++k) {
        if (wanted[k]) y[k].setZero(N);
    }
    // A task owns a strip of the result.
    const auto strip = [&](Index own, Index length) {
        Matrix<double> A, delta;
        const Index step = transposed ? tile_rows : tile_columns;
        for (Index other = 0; other < N; other += step) {
            const Index size = std::min(step, N - other);
            const Index i = transposed ? other : own, m = transposed ? size : length, j = transposed ? own : other,
                        n = transposed ? length : size;
            tile(i, m, j, n, A, delta);
            for (std::size_t k = 0; k < kinds; ++k)
                if (wanted[k]) add_tile_product(k < 2 ? delta : A, i, j, k % 2 == 1, transposed, x[k], y[k]);
        }
    };
    each_block(N, strip, transposed ? tile_columns : tile_rows);
}

// Golub and Kahan's bidiagonalisation of one matrix X: orthonormal V and U with X V = U B and Xᵀ U = V Bᵀ + rest.
class Bidiagonalisation {
public:
    double value = 0;     // the largest singular value of B, from the last look at it
    double residual = 0;  // of it, relative

    // v, the next column of V, and X v, which becomes the next column of U.
    void add_left(const Vector& v, Vector& product) {
        right_.push_back(v);
        orthogonalise(product, left_);
        const double length = product.norm();
        alpha_.push_back(length);
        if (length > 0) product /= length;
        left_.push_back(product);
    }

    // Xᵀ u for the last column u of U, which becomes the next column of V. False once the iteration has ended.
    bool add_right(Vector& product, Index step, Index max_steps, double tolerance) {
        orthogonalise(product, right_);
        const double length = product.norm();
        const bool last = length <= 1e-15 * alpha_[0] || step >= max_steps;
        if (last || step % 4 == 0) {
            look(length);
            if (last || residual <= tolerance) {
                left_ = right_ = {};
                return false;
            }
        }
        beta_.push_back(length);
        product /= length;
        return true;
    }

private:
    static void orthogonalise(Vector& v, const std::vector<Vector>& basis) {
        for (int pass = 0; pass < 2; ++pass) {
            for (const Vector& b : basis) v -= b.dot(v) * b;
        }
    }

    // Xᵀ U = V Bᵀ + length v e_lastᵀ: the residual of a singular triple of B is length times the last entry of its left
    // vector.
    void look(double length) {
        const auto size = static_cast<Index>(alpha_.size());
        Eigen::MatrixXd B = Eigen::MatrixXd::Zero(size, size);
        for (Index i = 0; i < size; ++i) {
            B(i, i) = alpha_[static_cast<std::size_t>(i)];
            if (i + 1 < size) B(i, i + 1) = beta_[static_cast<std::size_t>(i)];
        }
        const dense::Singular svd = dense::singular(B);
        value = svd.s[0];
        residual = value > 0 ? length * std::abs(svd.U(size - 1, 0)) / value : 0;
    }

    std::vector<Vector> right_, left_;
    std::vector<double> alpha_, beta_;  // B's diagonal, and above it
};

// The largest singular values of the wanted matrices, all from one start.
void operator_norms(const Tile& tile, Index N, const std::array<bool, kinds>& wanted, double tolerance, Index max_steps,
                    TiledNorms& out) {
    std::array<Bidiagonalisation, kinds> of;
    Vector start(N);
    random::normals(0, 0, start.data(), N);
    Vectors x, y;
    for (auto& v : x) v = start.normalized();
    auto running = wanted;
    for (Index step = 1; std::find(running.begin(), running.end(), true) != running.end(); ++step) {
        products(tile, N, x, y, running, false);
        for (std::size_t k = 0; k < kinds; ++k)
            if (running[k]) of[k].add_left(x[k], y[k]);
        products(tile, N, y, x, running, true);
        for (std::size_t k = 0; k < kinds; ++k)
            if (running[k]) running[k] = of[k].add_right(x[k], step, std::min(max_steps, N), tolerance);
    }
    for (std::size_t k = 0; k < kinds; ++k) {
        out.operators[k] = of[k].value;
        out.residual = std::max(out.residual, of[k].residual);
    }
}

// Squared Frobenius norms of m rows of tiles from row i; keep(i, j, A, Δ) sees every tile.
template <class Keep>
std::array<double, kinds> squares_of_rows(const Tile& tile, Index N, Index i, Index m, Keep&& keep) {
    std::array<double, kinds> sum{};
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
        keep(i, j, A, delta);
    }
    return sum;
}

}  // namespace

TiledNorms norms_of(const Tile& tile, Index N, bool mask, double tolerance, Index max_steps) {
    constexpr Index max_dense = 2048;
    TiledNorms out;
    std::vector<std::array<double, kinds>> squares(static_cast<std::size_t>((N + tile_rows - 1) / tile_rows));
    const bool dense = N <= max_dense;
    Scratch<double> dense_A(dense ? N : 0, dense ? N : 0), dense_delta(dense ? N : 0, dense ? N : 0);
    const auto keep = [&](Index i, Index j, const Matrix<double>& A, const Matrix<double>& delta) {
        if (!dense) return;
        dense_A.block(i, j, A.rows(), A.cols()) = A;
        dense_delta.block(i, j, A.rows(), A.cols()) = delta;
    };
    const auto strip = [&](Index i, Index m) {
        squares[static_cast<std::size_t>(i / tile_rows)] = squares_of_rows(tile, N, i, m, keep);
    };
    each_block(N, strip, tile_rows);
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
    operator_norms(dense ? from_memory : tile, N, wanted, tolerance, max_steps, out);
    return out;
}

}  // namespace causeway::lowrank
