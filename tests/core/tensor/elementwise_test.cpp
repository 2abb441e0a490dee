#include "core/tensor/elementwise.hpp"

#include <cmath>

#include "tests/catch.hpp"
#include "tests/core/tensor/sample.hpp"

using namespace causeway;

namespace {

// Element of `a` at the index of `shape` (row-major position `flat`), repeated where `a` is shorter or of length 1.
double repeated(const Tensor& a, const Shape& shape, Index flat) {
    Index position = 0, step = 1;
    for (int i = 0; i < shape.ndim(); ++i) {
        const Index index = flat % shape.back(i);
        flat /= shape.back(i);
        if (i >= a.ndim()) continue;
        if (a.shape().back(i) != 1) position += index * step;
        step *= a.shape().back(i);
    }
    return a.get(position);
}

}  // namespace

TEST_CASE("broadcasting repeats dimensions of length 1 and missing ones", "[tensor]") {
    const std::vector<std::pair<Shape, Shape>> pairs{{{3}, {3}},
                                                     {{2, 3}, {3}},
                                                     {{2, 1}, {3}},
                                                     {{2, 1}, {2, 3}},
                                                     {{1, 4}, {3, 1}},
                                                     {{2, 3, 4, 5}, {4, 5}},
                                                     {{2, 1, 4, 1}, {3, 1, 5}},
                                                     {{2, 3, 4, 5}, {2, 1, 4, 5}},
                                                     {{1, 1, 1, 1}, {2, 3}},
                                                     {{7, 5000}, {7, 1}},
                                                     {{3, 20000}, {20000}},
                                                     {{1}, {2, 2}},
                                                     {{2, 3}, Shape{}},
                                                     {{0, 3}, {1, 3}},
                                                     {{2, 1, 3}, {2, 0, 3}}};
    for (const auto& [left, right] : pairs) {
        const Tensor a = sample(left, 1), b = sample(right, 2);
        const Shape shape = broadcast(left, right, "-");
        CAPTURE(left.text(), right.text());
        const Tensor out = apply(Binary::subtract, a, b);
        REQUIRE(out.shape() == shape);
        bool equal = true;
        for (Index i = 0; i < out.size(); ++i)
            equal = equal && out.get(i) == repeated(a, shape, i) - repeated(b, shape, i);
        CHECK(equal);
    }
}

TEST_CASE("shapes that do not match are named", "[tensor]") {
    CHECK_THROWS_WITH(apply(Binary::add, Tensor::zeros(DType::f32, {2, 3}), Tensor::zeros(DType::f32, {2, 4})),
                      "+: shapes 2×3 and 2×4 do not match: from the right, dimension 1 is 3 and 4");
}

TEST_CASE("types meet in the wider one, and storage types compute in Float32", "[tensor]") {
    const DType all[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
    for (DType x : all) {
        CHECK(apply(Unary::exp, sample({3}, 1, x)).dtype() == (x == DType::f64 ? DType::f64 : DType::f32));
        for (DType y : all) {
            const bool wide = x == DType::f64 || y == DType::f64;
            CHECK(apply(Binary::add, sample({3}, 1, x), sample({3}, 2, y)).dtype() == (wide ? DType::f64 : DType::f32));
        }
    }
    CHECK(scalar(1, DType::bf16).dtype() == DType::f32);
}

TEST_CASE("functions of elements", "[tensor]") {
    const auto of = [](Unary op, double x) { return apply(op, values({x})).get(0); };
    CHECK(of(Unary::elu, -1) == std::expm1(-1.0));
    CHECK(of(Unary::elu, 2) == 2);
    CHECK(of(Unary::relu, -3) == 0);
    CHECK(std::isnan(of(Unary::relu, NaN)));
    CHECK(of(Unary::sign, -3) == -1);
    CHECK(of(Unary::sign, 0) == 0);
    CHECK(std::isnan(of(Unary::sign, NaN)));
    CHECK(of(Unary::round, 0.5) == 0);
    CHECK(of(Unary::round, 1.5) == 2);
    CHECK(of(Unary::isnan, NaN) == 1);
    CHECK(of(Unary::isnan, Inf) == 0);
    CHECK(of(Unary::isfinite, Inf) == 0);
    CHECK(of(Unary::isfinite, 1) == 1);
    CHECK(of(Unary::exp, -1e4) == 0);
    CHECK(std::isnan(of(Unary::sqrt, -1)));
    CHECK(of(Unary::sigmoid, 0) == 0.5);
    CHECK(of(Unary::sigmoid, 1000) == 1);
    CHECK(of(Unary::sigmoid, -1000) == 0);
    CHECK(apply(Unary::negate, 2) == -2);
    const Tensor big = sample({100003}, 5, DType::f32);
    const Tensor e = apply(Unary::exp, big);
    bool equal = true;
    for (Index i = 0; i < big.size(); ++i) equal = equal && e.data<float>()[i] == std::exp(big.data<float>()[i]);
    CHECK(equal);
}

TEST_CASE("comparisons give 0 and 1, and NaN compares as IEEE says", "[tensor]") {
    const Tensor a = values({1, 2, 3, NaN});
    const auto with_two = [&](Binary op) { return apply(op, a, scalar(2, DType::f64)); };
    CHECK(distance(with_two(Binary::lt), values({1, 0, 0, 0})) == 0);
    CHECK(distance(with_two(Binary::le), values({1, 1, 0, 0})) == 0);
    CHECK(distance(with_two(Binary::gt), values({0, 0, 1, 0})) == 0);
    CHECK(distance(with_two(Binary::ge), values({0, 1, 1, 0})) == 0);
    CHECK(distance(with_two(Binary::eq), values({0, 1, 0, 0})) == 0);
    CHECK(distance(with_two(Binary::ne), values({1, 0, 1, 1})) == 0);
}

TEST_CASE("clamp keeps NaN and refuses an empty interval", "[tensor]") {
    const Tensor c = clamp(values({-1, 0.5, 7, NaN}), 0, 1);
    CHECK(c.get(0) == 0);
    CHECK(c.get(1) == 0.5);
    CHECK(c.get(2) == 1);
    CHECK(std::isnan(c.get(3)));
    CHECK_THROWS_WITH(clamp(c, 2, 1), "clamp: low is 2 and high is 1, expected low <= high");
    CHECK_THROWS_AS(clamp(c, NaN, 1), Error);
}
