// Random queries and keys with the dense matrix in Float64.
#pragma once

#include <random>

#include "core/lowrank/error.hpp"
#include "core/lowrank/lowrank.hpp"
#include "tests/core/exact/problems.hpp"
#include "tests/decompositions.hpp"

namespace causeway::test {

using Dense = Eigen::MatrixXd;

inline Tensor normal_tensor(const Shape& shape, unsigned seed, DType type = DType::f64, double size = 1) {
    std::mt19937_64 generator(seed);
    std::normal_distribution<double> normal;
    Tensor out(type, shape);
    for (Index i = 0; i < out.size(); ++i) out.set(i, static_cast<float>(size * normal(generator)));
    return out;
}

// Head h of [.., N, w] as a matrix.
inline Dense matrix_of(const Tensor& x, Index h = 0) {
    const Index N = x.shape().back(1), w = x.shape().back();
    Dense out(N, w);
    for (Index i = 0; i < N; ++i) {
        for (Index j = 0; j < w; ++j) out(i, j) = x.get((h * N + i) * w + j);
    }
    return out;
}

inline Dense attention(const Tensor& q, const Tensor& k, double scale, Index h = 0) {
    return (scale * matrix_of(q, h) * matrix_of(k, h).transpose()).array().exp();
}

inline Dense product(const LowRank& f, Index h = 0) { return matrix_of(f.B, h) * matrix_of(f.C, h).transpose(); }

inline double largest(const Dense& x) { return singular_values(x)[0]; }
inline Dense lower(const Dense& x) { return x.triangularView<Eigen::Lower>(); }

inline LowRankOptions rank_and_seed(Index rank, std::uint64_t seed = 1, std::map<std::string, double> own = {}) {
    LowRankOptions o;
    if (rank > 0) o.rank = rank;
    o.seed = seed;
    o.own = std::move(own);
    return o;
}

}  // namespace causeway::test
