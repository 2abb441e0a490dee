#include "core/tensor/linalg.hpp"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/parallel.hpp"
#include "core/tensor/elementwise.hpp"
#include "core/tensor/matmul.hpp"
#include "core/tensor/rearrange.hpp"
#include "core/tensor/reduce.hpp"
#include "tests/catch.hpp"
#include "tests/core/tensor/sample.hpp"

using namespace causeway;

namespace {

Tensor identity(Index n) {
    Tensor out = Tensor::zeros(DType::f64, {n, n});
    for (Index i = 0; i < n; ++i) out.set(i * (n + 1), 1);
    return out;
}

Tensor matrix(Index n, std::initializer_list<double> entries) {
    return values(entries).reshape({n, static_cast<Index>(entries.size()) / n});
}

// Distance of QᵀQ from the identity.
double departure(const Tensor& q) { return distance(matmul(transpose(q), q), identity(q.shape()[1])); }

// Matrices with a large null space, at which Eigen's divide and conquer alone returns NaN (ones, 34) or vectors that
// are not orthogonal (the others at many sizes).
std::vector<std::pair<const char*, Tensor>> deficient(Index n) {
    const Tensor a = sample({n, n}, 5);
    std::vector<std::pair<const char*, Tensor>> out;
    const auto add = [&](const char* name, Index rows, Index columns, auto entry) {
        Tensor x(DType::f64, {rows, columns});
        for (Index i = 0; i < rows; ++i) {
            for (Index j = 0; j < columns; ++j) x.set(i * columns + j, entry(i, j));
        }
        out.emplace_back(name, x);
    };
    add("ones", n, n, [](Index, Index) { return 1.0; });
    add("tall", 2 * n, n, [](Index, Index) { return 1.0; });
    add("wide", n, 2 * n, [](Index, Index) { return -3.0; });
    add("tiny", n, n, [](Index, Index) { return 1e-300; });
    add("huge", n, n, [](Index, Index) { return 1e300; });
    add("equal columns", n, n, [&](Index i, Index) { return a.get(i * n); });
    add("repeated rows", n, n, [&](Index i, Index j) { return a.get(i % 3 * n + j); });
    return out;
}

const Shape shapes[] = {{1, 1}, {3, 3}, {5, 3}, {3, 5}, {1, 7}, {40, 40}, {60, 25}, {25, 60}};

}  // namespace

TEST_CASE("svd: U diag(S) Vᵀ is the matrix, U and V have orthonormal columns", "[tensor][linalg]") {
    for (const Shape& shape : shapes) {
        CAPTURE(shape.text());
        const Tensor a = sample(shape, 1);
        const Svd f = svd(a);
        const Index k = std::min(shape[0], shape[1]);
        REQUIRE(f.u.shape() == Shape{shape[0], k});
        REQUIRE(f.v.shape() == Shape{shape[1], k});
        CHECK(departure(f.u) < 1e-13);
        CHECK(departure(f.v) < 1e-13);
        CHECK(distance(matmul(apply(Binary::multiply, f.u, f.s), transpose(f.v)), a) < 1e-12);
        for (Index i = 1; i < k; ++i) CHECK(f.s.get(i) <= f.s.get(i - 1));
        CHECK(f.s.get(k - 1) >= 0);
        CHECK(distance(svdvals(a), f.s) < 1e-12);
        CHECK(svd(a.to(DType::f32)).u.dtype() == DType::f32);
    }
    CHECK(svd(Tensor(DType::f32, {0, 3})).v.shape() == Shape{3, 0});
    CHECK(svd(Tensor::zeros(DType::f32, {4, 3})).s.get(0) == 0);
}

TEST_CASE("svd: orthonormal and finite where most singular values are 0", "[tensor][linalg]") {
    for (const Index n : {1, 20, 33, 34, 45, 68, 231}) {
        for (const auto& [name, a] : deficient(n)) {
            CAPTURE(n);
            CAPTURE(name);
            const Svd f = svd(a);
            CHECK(departure(f.u) < 1e-11);
            CHECK(departure(f.v) < 1e-11);
            const double largest = f.s.get(0);
            Tensor relative = f.s.copy();
            for (Index i = 0; i < relative.size(); ++i) relative.set(i, f.s.get(i) / largest);
            Tensor part = a.copy();
            for (Index i = 0; i < part.size(); ++i) part.set(i, a.get(i) / largest);
            CHECK(distance(matmul(apply(Binary::multiply, f.u, relative), transpose(f.v)), part) < 1e-13);
            const double bound = static_cast<double>(45 + n) * std::numeric_limits<double>::epsilon();
            for (Index i = 3; i < relative.size(); ++i) CHECK(relative.get(i) < bound);
            const Tensor values = svdvals(a);
            for (Index i = 0; i < relative.size(); ++i)
                CHECK(std::abs(values.get(i) / largest - relative.get(i)) < bound);
        }
    }
}

TEST_CASE("qr: Q R is the matrix, R upper triangular", "[tensor][linalg]") {
    for (const Shape& shape : shapes) {
        CAPTURE(shape.text());
        const Tensor a = sample(shape, 2);
        const Qr f = qr(a);
        CHECK(departure(f.q) < 1e-13);
        CHECK(distance(matmul(f.q, f.r), a) < 1e-13);
        for (Index i = 0; i < f.r.shape()[0]; ++i) {
            for (Index j = 0; j < std::min(i, shape[1]); ++j) CHECK(f.r.get(i * shape[1] + j) == 0);
        }
    }
}

TEST_CASE("cholesky: L Lᵀ is the matrix", "[tensor][linalg]") {
    for (Index n : {1, 4, 33}) {
        const Tensor x = sample({n, n + 2}, 3);
        const Tensor a = matmul(x, transpose(x)), l = cholesky(a);
        CHECK(distance(matmul(l, transpose(l)), a) < 1e-11);
        for (Index i = 0; i < n; ++i) {
            for (Index j = i + 1; j < n; ++j) CHECK(l.get(i * n + j) == 0);
        }
    }
    CHECK_THROWS_WITH(cholesky(matrix(2, {1, 2, 2, 1})), "cholesky: the matrix is not positive definite");
    CHECK_THROWS_WITH(cholesky(matrix(2, {2, 1, 0, 2})), "cholesky: the matrix is not symmetric");
    CHECK_THROWS_WITH(cholesky(sample({2, 3}, 1)), "cholesky: expected a square matrix, got 2×3");
}

TEST_CASE("inv: A times the inverse is the identity; singular matrices are refused", "[tensor][linalg]") {
    for (Index n : {1, 2, 5, 30}) {
        const Tensor a = sample({n, n}, 4);
        CHECK(distance(matmul(a, inv(a)), identity(n)) < 1e-10);
    }
    CHECK_THROWS_WITH(inv(matrix(2, {1, 2, 2, 4})), "inv: the matrix is singular");
    CHECK_THROWS_WITH(inv(matrix(3, {1, 2, 3, 4, 5, 6, 7, 8, 9})), "inv: the matrix is singular");
    CHECK_THROWS_AS(inv(Tensor::zeros(DType::f32, {3, 3})), Error);
    CHECK(inv(matrix(2, {1e-200, 0, 0, 1e-200})).get(0) == 1e200);
}

TEST_CASE("eigenvalues of symmetric and of other matrices", "[tensor][linalg]") {
    const Eigenvalues two = eigvals(matrix(2, {2, 1, 1, 2}));
    CHECK(two.symmetric);
    CHECK(distance(two.re, values({1, 3})) < 1e-14);
    const Eigenvalues rotation = eigvals(matrix(2, {0, -1, 1, 0}));
    CHECK_FALSE(rotation.symmetric);
    CHECK(distance(rotation.re, values({0, 0})) < 1e-14);
    CHECK(distance(rotation.im, values({-1, 1})) < 1e-14);
    const Tensor a = sample({20, 20}, 5);
    const Eigenvalues general = eigvals(a);
    CHECK(std::abs(reduce(Reduction::sum, general.re) - tr(a)) < 1e-11);
    CHECK(std::abs(reduce(Reduction::sum, general.im)) < 1e-11);
}

TEST_CASE("opnorm is the largest singular value, small and large", "[tensor][linalg]") {
    for (const Shape& shape :
         {Shape{1, 1}, Shape{3, 8}, Shape{8, 3}, Shape{100, 60}, Shape{520, 530}, Shape{600, 540}}) {
        CAPTURE(shape.text());
        const Tensor a = sample(shape, 6);
        const double expected = svdvals(a).get(0);
        CHECK(std::abs(opnorm(a) - expected) <= 1e-10 * expected);
    }
    // A spectrum without a gap, and ones that end the iteration at once.
    CHECK(std::abs(opnorm(identity(600)) - 1) <= 1e-10);
    Tensor one = Tensor::zeros(DType::f64, {600, 600});
    one.set(599 * 600, -7);
    CHECK(std::abs(opnorm(one) - 7) <= 1e-9);
    CHECK(opnorm(Tensor::zeros(DType::f64, {600, 600})) == 0);
    CHECK(opnorm(Tensor(DType::f32, {0, 4})) == 0);
    // Squares beyond the range of double.
    CHECK(std::abs(opnorm(matrix(2, {3e200, 0, 0, 4e200})) / 4e200 - 1) < 1e-14);
}

TEST_CASE("opnorm does not depend on the number of threads", "[tensor][linalg]") {
    const int before = threads();
    const Tensor a = sample({530, 520}, 8);
    set_threads(1);
    const double one = opnorm(a);
    set_threads(4);
    CHECK(opnorm(a) == one);
    set_threads(before);
}

TEST_CASE("linear algebra refuses what is not a finite matrix", "[tensor][linalg]") {
    Tensor a = sample({3, 3}, 7);
    a.set(4, NaN);
    const std::string sentence = ": entry (2, 2) is nan, expected finite entries";
    CHECK_THROWS_WITH(svd(a), "svd" + sentence);
    CHECK_THROWS_WITH(svdvals(a), "svdvals" + sentence);
    CHECK_THROWS_WITH(qr(a), "qr" + sentence);
    CHECK_THROWS_WITH(inv(a), "inv" + sentence);
    CHECK_THROWS_WITH(cholesky(a), "cholesky" + sentence);
    CHECK_THROWS_WITH(eigvals(a), "eigvals" + sentence);
    CHECK_THROWS_WITH(opnorm(a), "opnorm" + sentence);
    CHECK_THROWS_WITH(svd(sample({2, 3, 4}, 1)), "svd: expected a matrix, got a 2×3×4 Tensor{Float64}");
    CHECK_THROWS_WITH(tr(sample({2, 3}, 1)), "tr: expected a square matrix, got a 2×3 Tensor{Float64}");
    CHECK(tr(matrix(2, {1, 2, 3, 4})) == 5);
}
