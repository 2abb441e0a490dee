// Models as their papers write them, in Float64, one token against all before it: no chunks, no cache, no threads.
#pragma once

#include <Eigen/Dense>
#include <cmath>
#include <functional>
#include <numbers>

#include "core/model/checkpoint.hpp"
#include "core/model/model.hpp"

namespace causeway::test::plain {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using model::Checkpoint;

// A tensor, in Float64.
inline Matrix weight(const Checkpoint& c, const std::string& name) {
    const model::Weight* w = c.find(name);
    if (!w) fail(name, ": the plain model wants it");
    Matrix out(w->rows, w->columns);
    std::vector<float> row(static_cast<std::size_t>(w->columns));
    for (Index i = 0; i < w->rows; ++i) {
        read_row(*w, i, row.data());
        for (Index j = 0; j < w->columns; ++j) out(i, j) = static_cast<double>(row[static_cast<std::size_t>(j)]);
    }
    return out;
}

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }
inline double gelu(double x) { return x * (1 + std::erf(x / std::numbers::sqrt2)) / 2; }

inline Matrix each(const Matrix& x, double (*f)(double)) { return x.unaryExpr(f); }

// Rows over their root mean square, times `w` + more.
inline Matrix rms(const Matrix& x, double eps) {
    Matrix out = x;
    for (Index i = 0; i < x.rows(); ++i)
        out.row(i) /= std::sqrt(x.row(i).squaredNorm() / static_cast<double>(x.cols()) + eps);
    return out;
}
inline Matrix rms(const Matrix& x, double eps, const Matrix& w, double more = 0) {
    return rms(x, eps).array().rowwise() * (w.reshaped<Eigen::RowMajor>().transpose().array() + more);
}

// x Wᵀ + bias, where there is one.
inline Matrix linear(const Checkpoint& c, const Matrix& x, const std::string& name) {
    Matrix out = x * weight(c, name + ".weight").transpose();
    if (c.has(name + ".bias")) out.rowwise() += weight(c, name + ".bias").row(0);
    return out;
}

inline Matrix columns(const Matrix& x, Index from, Index n) { return x.middleCols(from, n); }

// Pairs (i, i + d/2) of the first `turned` numbers, or (2i, 2i + 1), of row t turned by t · frequency(i).
inline Matrix rotated(Matrix x, Index turned, bool interleaved, const std::function<double(Index)>& frequency) {
    for (Index t = 0; t < x.rows(); ++t) {
        for (Index i = 0; i < turned / 2; ++i) {
            const Index a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + turned / 2;
            const double angle = static_cast<double>(t) * frequency(i), x_a = x(t, a), x_b = x(t, b);
            x(t, a) = x_a * std::cos(angle) - x_b * std::sin(angle);
            x(t, b) = x_a * std::sin(angle) + x_b * std::cos(angle);
        }
    }
    return x;
}

// One head.
inline Matrix softmax(const Matrix& q, const Matrix& k, const Matrix& v) {
    Matrix out = Matrix::Zero(q.rows(), v.cols());
    for (Index i = 0; i < q.rows(); ++i) {
        double sum = 0;
        for (Index j = 0; j <= i; ++j) {
            const double p = std::exp(q.row(i).dot(k.row(j)) / std::sqrt(static_cast<double>(q.cols())));
            sum += p;
            out.row(i) += p * v.row(j);
        }
        out.row(i) /= sum;
    }
    return out;
}

inline Matrix decayed(const Matrix& q, const Matrix& k, const Matrix& v, double gamma) {
    Matrix out = Matrix::Zero(q.rows(), v.cols());
    for (Index i = 0; i < q.rows(); ++i)
        for (Index j = 0; j <= i; ++j)
            out.row(i) += std::pow(gamma, static_cast<double>(i - j)) * q.row(i).dot(k.row(j)) * v.row(j);
    return out;
}

inline Matrix gated_delta(const Matrix& q, const Matrix& k, const Matrix& v, const Eigen::VectorXd& g,
                          const Eigen::VectorXd& beta) {
    Matrix S = Matrix::Zero(q.cols(), v.cols()), out(q.rows(), v.cols());
    for (Index t = 0; t < q.rows(); ++t) {
        S *= std::exp(g[t]);
        S += k.row(t).transpose() * (beta[t] * (v.row(t) - k.row(t) * S));
        out.row(t) = q.row(t) * S / std::sqrt(static_cast<double>(q.cols()));
    }
    return out;
}

// down(f(gate x) ⊙ up x).
inline Matrix gated_mlp(const Checkpoint& c, const Matrix& x, const std::string& gate, const std::string& up,
                        const std::string& down, double (*f)(double)) {
    return linear(c, each(linear(c, x, gate), f).cwiseProduct(linear(c, x, up)), down);
}

inline Matrix embedding(const Checkpoint& c, const model::Ids& ids) {
    const Matrix all = weight(c, "model.embed_tokens.weight");
    Matrix out(static_cast<Index>(ids.size()), all.cols());
    for (std::size_t i = 0; i < ids.size(); ++i) out.row(static_cast<Index>(i)) = all.row(ids[i]);
    return out;
}

inline std::string layer_name(Index i) { return "model.layers." + std::to_string(i) + "."; }

inline Index whole(const Checkpoint& c, const std::string& key) { return static_cast<Index>(c.number(key).value()); }

}  // namespace causeway::test::plain
