// The errors of factors against dense singular values, the bounds of claims A1, A2, A9, A10, and the worst cases.
#include "tests/core/lowrank/problems.hpp"
#include "tests/threads.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

constexpr double pi = 3.14159265358979323846;

}  // namespace

TEST_CASE("norms of the error are those of the dense matrices", "[lowrank]") {
    const Poison poison;
    for (Index N : {1, 2, 37, 190}) {
        CAPTURE(N);
        const Tensor q = normal_tensor({1, 2, N, 4}, 31), k = normal_tensor({1, 2, N, 4}, 32);
        const LowRank f = low_rank("favor+", q, k, rank_and_seed(8));
        LowRankErrorOptions o;
        o.tolerance = 1e-9;
        const LowRankErrors e = lowrank_error(q, k, f.B, f.C, o);
        double most = 0, sum = 0;
        for (Index h = 0; h < 2; ++h) {
            const Dense A = attention(q, k, 0.5, h), delta = A - product(f, h);
            const LowRankError& got = e.heads[static_cast<std::size_t>(h)];
            CHECK(got.frobenius.error == Approx(delta.norm()).epsilon(1e-12));
            CHECK(got.frobenius.error_masked == Approx(lower(delta).norm()).epsilon(1e-12));
            CHECK(got.frobenius.matrix_masked == Approx(lower(A).norm()).epsilon(1e-12));
            CHECK(got.operator_norm.error == Approx(largest(delta)).epsilon(1e-10));
            CHECK(got.operator_norm.error_masked == Approx(largest(lower(delta))).epsilon(1e-10));
            CHECK(got.operator_norm.matrix == Approx(largest(A)).epsilon(1e-10));
            CHECK(got.operator_norm.matrix_masked == Approx(largest(lower(A))).epsilon(1e-10));
            CHECK(got.frobenius.ratio() <= 1);
            CHECK(got.operator_norm.ratio() <= masking_constant(N) * (1 + 1e-10));
            most = std::max(most, largest(delta));
            sum += delta.squaredNorm();
        }
        CHECK(e.all.operator_norm.error == Approx(most).epsilon(1e-10));
        CHECK(e.all.frobenius.error == Approx(std::sqrt(sum)).epsilon(1e-12));
        CHECK(e.all.residual <= 1e-9);
    }
}

TEST_CASE("beyond dense lengths the error keeps no square matrix and does not depend on threads", "[lowrank]") {
    const Threads restore;
    const Index N = 2100;
    const Tensor q = normal_tensor({N, 4}, 33, DType::f32, 0.5), k = normal_tensor({N, 4}, 34, DType::f32, 0.5);
    const LowRank f = low_rank("favor+", q, k, rank_and_seed(4));
    LowRankErrorOptions o;
    o.tolerance = 1e-3;
    set_threads(1);
    memory::reset_peak();
    const std::size_t before = memory::current();
    const LowRankErrors one = lowrank_error(q, k, f.B, f.C, o);
    CHECK(memory::peak() - before < static_cast<std::size_t>(N * N));
    set_threads(3);
    const LowRankErrors three = lowrank_error(q, k, f.B, f.C, o);
    CHECK(one.all.operator_norm.error == three.all.operator_norm.error);
    CHECK(one.all.frobenius.error_masked == three.all.frobenius.error_masked);
    // The same Δ as one of the first 2048 tokens, whose norm is smaller but not by much.
    CHECK(one.all.operator_norm.error <= one.all.frobenius.error);
    CHECK(one.all.residual <= 1e-3);
    const Dense delta = attention(q, k, 0.5) - product(f);
    Eigen::VectorXd x = Eigen::VectorXd::Ones(N);
    for (int i = 0; i < 60; ++i) x = (delta.transpose() * (delta * x)).normalized();
    CHECK(one.all.operator_norm.error == Approx((delta * x).norm()).epsilon(1e-4));
}

TEST_CASE("output errors are those of the definition and keep the bounds of A9 and A10", "[lowrank]") {
    const Index N = 150;
    const Tensor q = normal_tensor({N, 4}, 35), k = normal_tensor({N, 4}, 36), v = normal_tensor({N, 3}, 37);
    for (Index rank : {16, 256}) {
        CAPTURE(rank);
        const LowRank f = low_rank("favor+", q, k, rank_and_seed(rank));
        LowRankErrorOptions o;
        o.v = v;
        const OutputError e = *lowrank_error(q, k, f.B, f.C, o).all.output;
        const Dense A = attention(q, k, 0.5), At = product(f), V = matrix_of(v);
        const auto output = [&](const Dense& X) -> Dense { return X.rowwise().sum().asDiagonal().inverse() * (X * V); };
        CHECK(e.error == Approx((output(At) - output(A)).norm()).epsilon(1e-9));
        CHECK(e.output == Approx(output(A).norm()).epsilon(1e-9));
        const Dense difference = output(lower(At)) - output(lower(A));
        CHECK(e.error_masked == Approx(difference.norm()).epsilon(1e-9));
        CHECK(e.output_masked == Approx(output(lower(A)).norm()).epsilon(1e-9));
        double bounds = 0, share = 0;
        for (Index i = 0; i < N; ++i) {
            double diameter = 0;
            for (Index a = 0; a <= i; ++a)
                for (Index b = 0; b < a; ++b) diameter = std::max(diameter, (V.row(a) - V.row(b)).norm());
            const double bound =
                (A - At).row(i).head(i + 1).lpNorm<1>() * diameter / std::abs(At.row(i).head(i + 1).sum());
            bounds += bound * bound;
            if (i > 0) share = std::max(share, difference.row(i).norm() / bound);
        }
        CHECK(e.row_bound == Approx(std::sqrt(bounds)).epsilon(1e-9));
        CHECK(e.row_share == Approx(share).epsilon(1e-6));
        CHECK(e.row_share <= 1);
        CHECK(e.error_masked <= e.row_bound);
        CHECK(e.row_bound <= e.frobenius_bound);
        CHECK(e.error_masked <= e.operator_bound);
        CHECK(e.min_sum > 0);
    }
}

TEST_CASE("a row sum of 0 makes the error of the output and its bounds infinite, never NaN", "[lowrank]") {
    const Tensor q = normal_tensor({5, 3}, 41), k = normal_tensor({5, 3}, 42), B = Tensor::zeros(DType::f64, {5, 2});
    for (const Tensor& v :
         {normal_tensor({5, 2}, 43), Tensor::full(DType::f64, {5, 2}, 1), Tensor::zeros(DType::f64, {5, 2})}) {
        LowRankErrorOptions o;
        o.v = v;
        const LowRankErrors e = lowrank_error(q, k, B, B, o);
        const OutputError& out = *e.all.output;
        for (const double x : {out.error, out.error_masked, out.row_bound, out.frobenius_bound, out.operator_bound})
            CHECK(x == std::numeric_limits<double>::infinity());
        CHECK(out.row_share == 0);
        CHECK(out.min_sum == 0);
        CHECK(std::isfinite(out.output_masked));
    }
}

TEST_CASE("the masking constant of any length is the sum, at once", "[lowrank]") {
    for (Index n : {2, 3, 511, 512, 513, 514, 1000, 4097, 300001}) {
        CAPTURE(n);
        const long double step = 3.14159265358979323846264338L / static_cast<long double>(2 * n);
        long double sum = 0;
        for (Index m = 0; m < n; ++m) sum += 1 / std::sin(static_cast<long double>(2 * m + 1) * step);
        const auto expected = static_cast<double>((1 + sum / static_cast<long double>(n)) / 2);
        CHECK(std::abs(masking_constant(n) / expected - 1) <= 1e-14);
    }
    const double far = masking_constant(Index{1} << 50);
    CHECK(far - masking_constant(Index{1} << 49) == Approx(std::log(2) / pi).epsilon(1e-12));
    CHECK(masking_constant(Index{1} << 62) > far);
}

TEST_CASE("without an error the mask adds none", "[lowrank]") {
    const MatrixNorms zero = masked_norms(Tensor::zeros(DType::f64, {5, 5}));
    CHECK(zero.frobenius.ratio() == 0);
    CHECK(zero.operator_norm.ratio() == 0);
    // exp(0) = 1 is one times one: no error in any bit.
    const Tensor x = Tensor::zeros(DType::f64, {6, 2}), one = Tensor::full(DType::f64, {6, 1}, 1);
    const LowRankErrors exact = lowrank_error(x, x, one, one);
    CHECK(exact.all.frobenius.error == 0);
    CHECK(exact.all.frobenius.ratio() == 0);
    CHECK(exact.all.operator_norm.ratio() == 0);
    Tensor upper = Tensor::zeros(DType::f64, {3, 3});
    upper.set(2, 1);
    CHECK(masked_norms(upper).operator_norm.ratio() == 0);
}

TEST_CASE("the masking constant is its closed form, and the worst cases grow like it", "[lowrank]") {
    CHECK(masking_constant(1) == Approx(1));
    for (Index n : {2, 3, 7, 64, 1000, 100000}) {
        CAPTURE(n);
        const double N = static_cast<double>(n),
                     s = 2 / pi * (std::log(N) + 0.57721566490153286 + std::log(8 / pi)) + pi / (72 * N * N);
        CHECK(masking_constant(n) == Approx((1 + s) / 2).margin(0.02 / (N * N * N * N) + 1e-12));
        CHECK(masking_constant(n) <= 1 + std::log(N) / pi);
    }
    for (Index n : {2, 5, 64, 256}) {
        CAPTURE(n);
        const Tensor W = masked_worst_case(n, "W");
        const Dense w = matrix_of(W);
        CHECK((w * w.transpose() - Dense::Identity(n, n)).cwiseAbs().maxCoeff() <= 1e-13 * static_cast<double>(n));
        const MatrixNorms got = masked_norms(W);
        const double U = masking_constant(n), s = 2 * U - 1;
        CHECK(got.operator_norm.error == Approx(1).epsilon(1e-9));
        CHECK(got.operator_norm.error_masked == Approx(largest(lower(w))).epsilon(1e-8));
        CHECK(got.operator_norm.ratio() >= (1 + 1 / static_cast<double>(n)) * s / 2 * (1 - 1e-9));
        CHECK(got.operator_norm.ratio() <= U * (1 + 1e-9));
    }
    // Whatever the size of the entries: no square of them overflows or vanishes.
    const MatrixNorms usual = masked_norms(masked_worst_case(5, "G"));
    for (double size : {1e300, 1e-300}) {
        Tensor X = masked_worst_case(5, "G");
        for (Index i = 0; i < 25; ++i) X.set(i, X.get(i) * size);
        const MatrixNorms got = masked_norms(X);
        CHECK(got.frobenius.error == Approx(usual.frobenius.error * size).epsilon(1e-12));
        CHECK(got.operator_norm.ratio() == Approx(usual.operator_norm.ratio()).epsilon(1e-10));
    }
    // Claims A6.
    CHECK(masked_norms(masked_worst_case(64, "H")).operator_norm.ratio() == Approx(1.323).margin(1e-3));
    CHECK(masked_norms(masked_worst_case(256, "H")).operator_norm.ratio() == Approx(1.714).margin(1e-3));
    CHECK(masked_norms(masked_worst_case(64, "G")).operator_norm.ratio() == Approx(1.696).margin(1e-3));
    CHECK(masked_norms(masked_worst_case(256, "G")).operator_norm.ratio() == Approx(2.126).margin(1e-3));
}

TEST_CASE("what lowrank_error refuses is said in one sentence", "[lowrank]") {
    const Tensor x = normal_tensor({1, 2, 8, 4}, 38), f = normal_tensor({1, 2, 8, 3}, 39);
    const auto refused = [](auto&& call, const std::string& message) {
        try {
            call();
            FAIL("accepted, expected: " << message);
        } catch (const Error& error) {
            CHECK(std::string(error.what()) == message);
        }
    };
    refused(
        [&] {
            lowrank_error(x, x, normal_tensor({1, 2, 7, 3}, 1), f);
        },
        "B: 1×2×7×3, expected 1×2×8×4 like q but for the last dimension");
    refused([&] { lowrank_error(x, x, f, x); }, "C: 1×2×8×4, expected 1×2×8×3 like B");
    refused(
        [&] {
            lowrank_error(x, x, normal_tensor({8, 3}, 1), f);
        },
        "B: 8×3, expected 4 dimensions like q (1×2×8×4)");
    LowRankErrorOptions o;
    o.tolerance = 0;
    refused([&] { lowrank_error(x, x, f, f, o); }, "tolerance: 0, expected a number between 0 and 1");
    o = {};
    o.extras["query_block"] = Tensor::zeros(DType::f64, {1, 2, 8});
    refused([&] { lowrank_error(x, x, f, f, o); }, "key_block: missing, expected beside query_block");
    o = {};
    o.extras["exact_rows"] = Tensor::zeros(DType::f64, {1, 2, 7});
    refused([&] { lowrank_error(x, x, f, f, o); }, "exact_rows: 1×2×7, expected a number for each of the 16 rows of q");
    o.extras = {{"log_rows", Tensor::full(DType::f64, {1, 2, 8}, std::nan(""))}};
    refused([&] { lowrank_error(x, x, f, f, o); }, "log_rows: entry (1, 1, 1) is NaN, expected finite numbers");
    refused(
        [&] {
            lowrank_error(x, x, Tensor::full(DType::f64, {1, 2, 8, 3}, 1e200),
                          Tensor::full(DType::f64, {1, 2, 8, 3}, 1e200));
        },
        "B: B Cᵀ overflows, expected smaller factors");
    o = {};
    o.scale = 1e6;
    refused([&] { lowrank_error(x, x, f, f, o); },
            "q: exp(scale q kᵀ) overflows, expected smaller queries, keys or scale");
    refused([&] { masked_norms(normal_tensor({3, 4}, 1)); }, "X: a 3×4 Tensor{Float64}, expected a square matrix");
    refused([&] { masked_worst_case(4, "X"); }, "which: \"X\", expected \"W\", \"G\" or \"H\"");
    refused([&] { masking_constant(0); }, "n: 0, expected 1 or more");
}
