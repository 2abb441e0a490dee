// Causal linear attention for the proofs: its definition by plain loops, the budget of its roundings, the library's
// methods on plain matrices and on numbers that count.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/bounds/counts.hpp"
#include "core/exact/causal_linear_attention.hpp"
#include "tests/proofs/reference.hpp"

namespace causeway::proofs {

using bounds::ceil_div;
using bounds::count;
using bounds::e;
using bounds::peak_of_run;
using bounds::peak_scalars;
using bounds::u32;
using bounds::u64;
using bounds::Unfused;

inline Index tau(Index n) { return n * (n + 1) / 2; }

// M_ij = g^(i-j) for i >= j, else 0.
inline Matrix mask(Index n, double g = 1) {
    return Matrix::NullaryExpr(n, n,
                               [g](Index i, Index j) { return i < j ? 0 : std::pow(g, static_cast<double>(i - j)); });
}

struct Causal {
    Matrix B, C, V;
    Index N() const { return B.rows(); }
    Index r() const { return B.cols(); }
    Index d() const { return V.cols(); }
};

// Signed normal entries, exact in Float32.
inline Causal normal_problem(Index N, Index r, Index d, unsigned seed) {
    Random random(seed);
    const Matrix B = rounded(random.normal(N, r)), C = rounded(random.normal(N, r)), V = rounded(random.normal(N, d));
    return {B, C, V};
}

// P = (B Cᵀ ⊙ M) V, and Π, the same of absolute values.
inline Matrix definition(const Causal& x, double g = 1) {
    return product(mask(x.N(), g).cwiseProduct(product(x.B, x.C.transpose())), x.V);
}
inline Matrix absolute(const Causal& x, double g = 1) {
    return definition({x.B.cwiseAbs(), x.C.cwiseAbs(), x.V.cwiseAbs()}, g);
}

// max |got - want| / (u Π): what B7 bounds by the number of roundings. 0 where all three are 0.
inline double roundings(const Matrix& got, const Matrix& want, const Matrix& Pi, double u) {
    double most = 0;
    for (Index k = 0; k < want.size(); ++k) {
        const double error = std::abs(got.data()[k] - want.data()[k]);
        most = worst(most, error == 0 ? 0 : error / (u * Pi.data()[k]));
    }
    return most;
}

// block 0: the method's own.
inline Matrix library(const Causal& x, const std::string& method, Index block = 0, double g = 1,
                      DType type = DType::f64, bool normalize = false) {
    CausalOptions o;
    o.method = method, o.normalize = normalize;
    if (block > 0) o.block = block;
    if (g != 1) o.decay = {g};
    return matrix(causal_linear_attention(tensor(x.B, type), tensor(x.C, type), tensor(x.V, type), o).O);
}

// Operations and scratch of a method's definition on one head of ones.
inline exact::Cost measured(const std::string& method, const exact::Work& w) {
    return bounds::measured(exact::method(method), w);
}

// f(head) on these inputs in the arithmetic of T.
template <class T, class F>
Matrix on_head(const Causal& x, double g, F&& f) {
    const auto copy = [](const Matrix& A) {
        std::vector<T> out;
        for (Index i = 0; i < A.rows(); ++i)
            for (Index j = 0; j < A.cols(); ++j) out.emplace_back(static_cast<decltype(T().value)>(A(i, j)));
        return out;
    };
    const auto B = copy(x.B), C = copy(x.C), V = copy(x.V);
    std::vector<T> O(V.size());
    const exact::Head<T> head{{B.data(), x.N(), x.r()},
                              {C.data(), x.N(), x.r()},
                              {V.data(), x.N(), x.d()},
                              {O.data(), x.N(), x.d()},
                              g,
                              nullptr};
    f(head);
    Matrix out(x.N(), x.d());
    for (Index i = 0; i < x.N(); ++i)
        for (Index j = 0; j < x.d(); ++j)
            out(i, j) = static_cast<double>(O[static_cast<std::size_t>(i * x.d() + j)].value);
    return out;
}

}  // namespace causeway::proofs
