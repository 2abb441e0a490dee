// Checks of proofs/decay.md: claims E1, E2, E3 and E5. E4 stands in gates_test.cpp.
#include "core/exact/block_based.hpp"
#include "core/exact/fleet.hpp"
#include "core/tensor/linalg.hpp"
#include "tests/catch.hpp"
#include "tests/proofs/causal.hpp"
#include "tests/proofs/claims.hpp"

using namespace causeway;
using namespace causeway::proofs;

namespace {

// x_i = λ x_{i-1} + v_i.
template <class T>
Mat<T> discounted(const Mat<T>& v, T lambda) {
    Mat<T> x = v;
    for (Index i = 1; i < x.rows(); ++i)
        for (Index k = 0; k < x.cols(); ++k) x(i, k) = lambda * x(i - 1, k) + v(i, k);
    return x;
}

// FleetAttention in tiles with the discounted cumsum: cumsum + λ^{p+1} l, l ← λ^n l + Σ_p λ^{n-1-p} c_p v_p. With the
// carry of Algorithm 1, which is for the mask without decay: cumsum + l, l ← sum(diag(c)V) + l.
Matrix tiled(const Causal& x, double lambda, Index Br, bool undiscounted) {
    Matrix out = zeros<double>(x.N(), x.d()), l = zeros<double>(x.r(), x.d());
    for (Index start = 0; start < x.N(); start += Br) {
        const Index n = std::min(Br, x.N() - start);
        for (Index j = 0; j < x.r(); ++j) {
            const Matrix scaled = x.C.block(start, j, n, 1).col(0).asDiagonal() * x.V.middleRows(start, n),
                         sums = discounted(scaled, lambda);
            for (Index p = 0; p < n; ++p)
                out.row(start + p) +=
                    x.B(start + p, j) *
                    (sums.row(p) +
                     (undiscounted ? 1 : std::pow(lambda, real(p + faulty("E3: λ^p", Index{1}, Index{0})))) * l.row(j));
            if (undiscounted) l.row(j) += scaled.colwise().sum();
            else l.row(j) = std::pow(lambda, real(n)) * l.row(j) + sums.row(n - 1);
        }
    }
    return out;
}

// The first token at which λ^i cumsum(λ^{-j} v_j), v = 1, is not finite in T, exponents from 0; and how many single
// terms are.
template <class T>
std::pair<Index, Index> scaled_cumsum(double lambda) {
    T sum = 0;
    Index first = 0, terms = 0;
    for (Index j = 0; first == 0 || std::isfinite(static_cast<T>(std::pow(lambda, -real(j)))); ++j) {
        const T term = static_cast<T>(std::pow(lambda, -real(j + faulty("E2: exponents from 1", Index{0}, Index{1}))));
        if (std::isfinite(term)) terms = j;
        sum += term;
        if (!std::isfinite(sum * static_cast<T>(std::pow(lambda, real(j)))) && first == 0) first = j + 1;
    }
    return {first, terms};
}

}  // namespace

TEST_CASE("E1, E2: the discounted sum", "[proofs][decay]") {
    double most = 0, inverse = 0, library_most = 0;
    for (double lambda : {0.0, 0.5, 0.9, 0.99, 1.0}) {
        const Index N = 60;
        const Matrix v = Random(701).normal(N, 3), ones = Matrix::Ones(N, 1);
        most = worst(most, relative(discounted(v, lambda), product(mask(N, lambda), v)));
        const Matrix shift = Matrix::NullaryExpr(N, N, [](Index i, Index j) { return i == j + 1 ? 1.0 : 0.0; });
        inverse =
            worst(inverse,
                  (product(Matrix::Identity(N, N) - lambda * shift, mask(N, lambda)) - Matrix::Identity(N, N)).norm());
        if (lambda > 0)
            library_most = worst(library_most, relative(library({ones, ones, v}, "fleet-untiled", 0, lambda),
                                                        product(mask(N, lambda), v)));
    }
    claim("E1", "x_i = λx_{i-1} + v_i against Mv", "λ = 0, 0.5, 0.9, 0.99, 1, N = 60", most, 1e-14);
    claim("E1", "(I - λZ) M = I", "the same", inverse, 1e-13);
    claim("E1", "the library, B = C = 1, against Mv", "λ = 0.5, 0.9, 0.99, 1", library_most, 1e-14);
    const auto one = count([] { discounted<Counted>(Mat<Counted>::Constant(50, 3, Counted(1)), Counted(0.5)); });
    exactly("E1", "multiplies: one an entry after the first row", "N = 50, d = 3", one.multiplies, 49 * 3);
    exactly("E1", "adds: the same", "N = 50, d = 3", one.adds, 49 * 3);

    struct Row {
        double lambda, bound, seen;
    };
    for (const auto& [lambda, bound, seen] : {Row{0.9, 190, 101}, {0.99, 19900, 15922}}) {
        const double l = static_cast<double>(static_cast<float>(lambda));
        const auto third = 1.0f / 3;
        const auto run = [&](Index N) {
            Unfused<float> x = third;
            double exact = static_cast<double>(third), error = 0;
            for (Index i = 1; i < N; ++i) {
                x = Unfused<float>(static_cast<float>(lambda)) * x + Unfused<float>(third);
                exact = l * exact + static_cast<double>(third);
                error = worst(error, std::abs(static_cast<double>(x.value) - exact));
            }
            return error / (u32 * static_cast<double>(third));
        };
        const auto input = sentence("Float32, v = 1/3, λ = ", lambda);
        const double full = run(20000);
        claim("E1", "error of the recurrence, in units of u max|v|: (1+λ)/(1-λ)²", input + ", N = 20000", full,
              (1 + l) / ((1 - l) * faulty("E1: 1 - λ once", 1 - l, 1.0)));
        claim("E1", sentence("that is ", seen, " of ", bound, ", off by"), input, std::abs(full - seen), 1, regression);
        claim("E1", "independent of N: error at N = 20000 over that at N = 5000", input, full / run(5000), 1 + 1e-12);
    }

    const auto [first, terms32] = scaled_cumsum<float>(0.9);
    const auto terms64 = scaled_cumsum<double>(0.9).second;
    exactly("E2", "λ^i cumsum(λ^{-j}v_j): first token that is not finite", "Float32, λ = 0.9, v = 1", first, 822);
    exactly("E2", "last exponent whose single term is finite", "Float32, λ = 0.9", terms32, 842);
    exactly("E2", "last exponent whose single term is finite", "Float64, λ = 0.9", terms64, 6736);
    const Index N = 1000;
    Mat<float> v = Mat<float>::Constant(N, 1, 1), scaled(N, 1);
    float sum = 0;
    for (Index j = 0; j < N; ++j) {
        sum += static_cast<float>(std::pow(0.9, -real(j)));
        scaled(j, 0) = sum * static_cast<float>(std::pow(0.9, real(j)));
    }
    published_fails("E2", "outputs that are not finite", "Float32, λ = 0.9, N = 1000",
                    real(N) - real((scaled.array().isFinite()).count()), 179);
    claim("E2", "the recurrence there: relative error", "Float32, λ = 0.9, N = 1000",
          relative(discounted(v, 0.9f), product(mask(N, 0.9), Matrix::Ones(N, 1))), 2e-6);
}

TEST_CASE("E3, E5: decay in tiles", "[proofs][decay]") {
    double repaired = 0, fleet = 0, block = 0, lightning = 0;
    for (double lambda : {0.3, 0.5, 0.9, 0.99})
        for (Index N : {7, 40, 100})
            for (Index Br : {Index{1}, Index{7}, Index{16}, N}) {
                const Causal x = normal_problem(N, 4, 3, static_cast<unsigned>(710 + N));
                const Matrix want = definition(x, lambda);
                repaired = worst(repaired, relative(tiled(x, lambda, Br, false), want));
                fleet = worst(fleet, relative(library(x, "fleet", Br, lambda), want));
                block = worst(block, relative(library(x, "block-based", Br, lambda), want));
                lightning = worst(lightning, relative(library(x, "lightning-attention-2", Br, lambda), want));
            }
    const std::string input = "λ = 0.3, 0.5, 0.9, 0.99, N = 7, 40, 100, Br = 1, 7, 16, N";
    claim("E3", "carry scaled by λ^{p+1}, l ← λ^n l + Σ λ^{n-1-p} c v", input, repaired, 1e-13);
    claim("E3", "the library's FleetAttention in tiles", input, fleet, 1e-13);
    claim("E3", "block form", input, block, 1e-13);
    claim("E3", "lightning-attention-2", input, lightning, 1e-13);
    const Causal x = normal_problem(32, 4, 3, 711);
    published_fails("E3", "a discounted cumsum with the carry of the mask without decay, N = 2Br",
                    "λ = 0.5, N = 32, Br = 16", relative(tiled(x, 0.5, 16, true), definition(x, 0.5)), 0.1);
    claim("E3", "the same with one tile, N = Br", "λ = 0.5, N = 32",
          relative(tiled(x, 0.5, 32, true), definition(x, 0.5)), 1e-14);
    claim("E3", "the same without decay", "λ = 1, N = 32, Br = 16", relative(tiled(x, 1, 16, true), definition(x)),
          1e-14);

    const Index N = 40, r = 4, d = 3;
    for (const std::string method : {"fleet-untiled", "row-based"}) {
        const auto plain = measured(method, {N, r, d}).operations,
                   decay = measured(method, {N, r, d, 0, true}).operations;
        exactly("E5", method + ": 4Nrd operations without decay", "N = 40, r = 4, d = 3", plain.multiplies + plain.adds,
                4 * N * r * d);
        exactly("E5", method + ": 5Nrd with it", "N = 40, r = 4, d = 3", decay.multiplies + decay.adds, 5 * N * r * d);
    }
    const auto plain = measured("fleet", {N, r, d, 8}).operations,
               decay = measured("fleet", {N, r, d, 8, true}).operations;
    exactly("E5", "in tiles, carry apart from the cumsum: (2N - Tr)rd multiplies more", "N = 40, Br = 8",
            decay.multiplies - plain.multiplies, (2 * N - faulty("E5: without Tr", Index{5}, Index{0})) * r * d);
    exactly("E5", "in tiles: as many adds", "N = 40, Br = 8", decay.adds - plain.adds, 0);
}
