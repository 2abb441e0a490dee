#include "core/tensor/elementwise.hpp"

#include <cmath>

#include "core/tensor/rearrange.hpp"
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
                      "+: shapes 2×3 and 2×4 do not match: dimension 2 is 3 and 4");
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

TEST_CASE("where takes one of two elements and nothing of the other", "[tensor]") {
    const double inf = std::numeric_limits<double>::infinity();
    const Tensor taken = where(values({1, 0, -2, NaN}), values({1, NaN, inf, 4}), values({NaN, -inf, NaN, 8}));
    CHECK(taken.get(0) == 1);
    CHECK(taken.get(1) == -inf);
    CHECK(taken.get(2) == inf);
    CHECK(taken.get(3) == 4);
    // [2, 1] with [3] and a number.
    const Tensor spread = where(values({0, 1}).reshape(Shape{2, 1}), values({1, 2, 3}), scalar(NaN, DType::f64));
    CHECK(spread.shape() == Shape{2, 3});
    for (Index i = 0; i < 3; ++i) {
        CHECK(std::isnan(spread.get(i)));
        CHECK(spread.get(3 + i) == static_cast<double>(i + 1));
    }
    // The type is that of the two, whatever the mask has.
    CHECK(where(values({1, 0}), scalar(1, DType::f32), scalar(2, DType::f32)).dtype() == DType::f32);
    CHECK(where(values({1, 0}), Tensor::full(DType::f16, Shape{2}, 1), scalar(2, DType::f64)).dtype() == DType::f64);
    CHECK(where(Tensor(DType::f32, Shape{0, 3}), scalar(1, DType::f32), scalar(2, DType::f32)).shape() == Shape{0, 3});
    // More than one piece of a walk.
    const Index n = 70001;
    Tensor mask(DType::f32, {n});
    for (Index i = 0; i < n; ++i) mask.set(i, static_cast<double>(i % 3 == 0));
    const Tensor many = where(mask, scalar(5, DType::f32), mask);
    bool right = true;
    for (Index i = 0; i < n; ++i) right = right && many.get(i) == (i % 3 == 0 ? 5 : 0);
    CHECK(right);
    CHECK_THROWS_AS(where(values({1, 0}), values({1, 2, 3}), scalar(0, DType::f64)), Error);
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

TEST_CASE("the greater and the lesser of two are NaN where one of them is", "[tensor]") {
    const Tensor a = values({1, 5, NaN, 2}), b = values({3, 4, 1, NaN});
    const Tensor most = apply(Binary::maximum, a, b), least = apply(Binary::minimum, a, b);
    CHECK(most.get(0) == 3);
    CHECK(most.get(1) == 5);
    CHECK(least.get(0) == 1);
    CHECK(least.get(1) == 4);
    for (const Tensor& c : {most, least}) {
        CHECK(std::isnan(c.get(2)));
        CHECK(std::isnan(c.get(3)));
    }
}

TEST_CASE("operations in place give what the operations give, in the type of the tensor", "[tensor]") {
    const DType all[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
    const std::vector<std::pair<Shape, Shape>> pairs{{{3}, {3}},        {{2, 3}, {3}},         {{2, 3, 4}, {3, 1}},
                                                     {{4, 5}, Shape{}}, {{3, 20000}, {20000}}, {{1, 2, 2}, {2, 2}},
                                                     {{0, 3}, {3}}};
    for (DType type : all) {
        for (DType other : all) {
            for (const auto& [shape, broadcasting] : pairs) {
                CAPTURE(name(type), name(other), shape.text(), broadcasting.text());
                const Tensor a = sample(shape, 1, type), b = sample(broadcasting, 2, other);
                for (Binary op : {Binary::add, Binary::subtract, Binary::multiply, Binary::divide, Binary::maximum}) {
                    Tensor x = a.copy();
                    const unsigned char* place = x.raw();
                    apply_to(x, op, b, "f_");
                    CHECK(x.raw() == place);
                    CHECK(x.dtype() == type);
                    CHECK(identical(x, apply(op, a, b).to(type)));
                }
                Tensor x = a.copy();
                copy_to(x, b, "copy_");
                CHECK(distance(x, apply(Binary::add, Tensor::zeros(type, shape), b).to(type)) == 0);
                x = a.copy();
                add_to(x, b, -2, "add_");
                const Tensor twice = apply(Binary::multiply, b, scalar(2, DType::f64)).to(promote(type, other));
                CHECK(distance(x, apply(Binary::subtract, a, twice).to(type)) == 0);
            }
        }
        Tensor x = sample({70000}, 3, type), y = x.copy();
        const Tensor e = apply(Unary::exp, x).to(type), c = clamp(x, -1, 0.5).to(type);
        apply_to(x, Unary::exp);
        clamp_to(y, -1, 0.5);
        CHECK(distance(x, e) == 0);
        CHECK(distance(y, c) == 0);
    }
}

TEST_CASE("operands in place may share elements with the tensor", "[tensor]") {
    Tensor a = sample({4, 6}, 1);
    const Tensor before = a.copy(), two = scalar(2, DType::f64);
    apply_to(a, Binary::add, a, "add_");
    CHECK(distance(a, apply(Binary::multiply, before, two)) == 0);
    a = before.copy();
    apply_to(a, Binary::subtract, a.reshape({4, 6}), "sub_");
    CHECK(distance(a, Tensor::zeros(DType::f64, {4, 6})) == 0);
    Tensor wide = before.copy().reshape({1, 4, 6});
    apply_to(wide, Binary::multiply, wide.reshape({4, 6}), "times_");
    CHECK(distance(wide.reshape({4, 6}), apply(Binary::multiply, before, before)) == 0);
}

TEST_CASE("operations in place keep the shape, and say when it does not fit", "[tensor]") {
    Tensor a = Tensor::zeros(DType::f32, {1, 3});
    for (const Shape& shape : {Shape{2, 3}, Shape{4}, Shape{1, 1, 3}}) {
        CHECK_THROWS_WITH(
            apply_to(a, Binary::add, Tensor::zeros(DType::f32, shape), "add_"),
            "add_: B: shape " + shape.text() + ", expected one that repeats to the 1×3 of A, which keeps its shape");
    }
    CHECK_THROWS_WITH(clamp_to(a, 2, 1), "clamp: low is 2 and high is 1, expected low <= high");
}

TEST_CASE("outer has every product of two elements", "[tensor]") {
    const Tensor a = sample({2, 3}, 1), b = sample({2, 5}, 2);
    const Tensor c = outer(a, b);
    REQUIRE(c.shape() == Shape({2, 3, 5}));
    for (Index i = 0; i < c.size(); ++i) CHECK(c.get(i) == a.get(i / 5) * b.get(i / 15 * 5 + i % 5));
    CHECK(outer(sample({3}, 1), sample({4}, 2)).shape() == Shape({3, 4}));
    CHECK(outer(sample({3}, 1), sample({2, 4}, 2)).shape() == Shape({2, 3, 4}));
    CHECK_THROWS_WITH(outer(sample({2, 3}, 1), sample({3, 4}, 2)),
                      "outer: shapes 2×3×1 and 3×1×4 do not match: dimension 1 is 2 and 3");
    CHECK_THROWS_WITH(outer(scalar(1, DType::f64), b),
                      "outer: a: 0-dimensional Tensor{Float64}, expected 1 to 3 dimensions");
}
