#include "core/tensor/reduce.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/parallel.hpp"
#include "core/tensor/rearrange.hpp"
#include "tests/catch.hpp"
#include "tests/core/tensor/sample.hpp"

using namespace causeway;

namespace {

std::vector<double> elements(const Tensor& a) {
    std::vector<double> out;
    for (Index i = 0; i < a.size(); ++i) out.push_back(a.get(i));
    return out;
}

double plain(Reduction op, const std::vector<double>& x) {
    long double sum = 0, product = 1, squares = 0;
    for (double v : x) sum += v, product *= v;
    const long double mean = sum / static_cast<long double>(x.size());
    for (double v : x) squares += (v - mean) * (v - mean);
    switch (op) {
        case Reduction::sum: return static_cast<double>(sum);
        case Reduction::prod: return static_cast<double>(product);
        case Reduction::maximum: return *std::max_element(x.begin(), x.end());
        case Reduction::minimum: return *std::min_element(x.begin(), x.end());
        case Reduction::mean: return static_cast<double>(mean);
        default: return static_cast<double>(std::sqrt(squares / static_cast<long double>(x.size() - 1)));
    }
}

double plain_quantile(std::vector<double> x, double p) {
    std::sort(x.begin(), x.end());
    const double position = p * static_cast<double>(x.size() - 1);
    const auto i = static_cast<std::size_t>(position);
    return i + 1 < x.size() ? x[i] + (position - static_cast<double>(i)) * (x[i + 1] - x[i]) : x[i];
}

// The elements of column r of `a` along `dim`, r in the row-major order of the result.
std::vector<double> column(const Tensor& a, int dim, Index r) {
    Index inner = 1;
    for (int i = dim + 1; i < a.ndim(); ++i) inner *= a.shape()[i];
    const Index n = a.shape()[dim];
    std::vector<double> out;
    for (Index i = 0; i < n; ++i) out.push_back(a.get((r / inner * n + i) * inner + r % inner));
    return out;
}

constexpr Reduction every[] = {Reduction::sum,     Reduction::prod, Reduction::maximum,
                               Reduction::minimum, Reduction::mean, Reduction::deviation};

}  // namespace

TEST_CASE("reductions of all elements are what their definitions say", "[tensor]") {
    for (Index n : {1, 2, 15, 16, 17, 511, 513, 32768, 32769, 100003}) {
        const Tensor a = sample({n}, static_cast<unsigned>(n));
        for (Reduction op : every) {
            if (op == Reduction::deviation && n == 1) continue;
            CAPTURE(n, static_cast<int>(op));
            const double expected = plain(op, elements(a));
            CHECK(std::abs(reduce(op, a) - expected) <= 1e-12 * (1 + std::abs(expected)));
        }
        CHECK(std::abs(norm(a) - std::sqrt(dot(a, a))) <= 1e-12 * norm(a));
        for (double p : {0.0, 0.1, 0.5, 0.99, 1.0}) CHECK(quantile(a, p) == plain_quantile(elements(a), p));
    }
}

TEST_CASE("reductions along each dimension are what their definitions say", "[tensor]") {
    for (const Shape& shape : {Shape{5}, Shape{3, 4}, Shape{2, 3, 70}, Shape{2, 3, 4, 5}, Shape{1000, 3},
                               Shape{2, 1000}, Shape{1, 130, 65}}) {
        const Tensor a = sample(shape, 7);
        for (int dim = 0; dim < shape.ndim(); ++dim) {
            CAPTURE(shape.text(), dim);
            const Tensor middle = quantile(a, 0.3, dim), greatest = find(Extreme::maximum, a, dim);
            for (Reduction op : every) {
                const Tensor out = reduce(op, a, dim);
                REQUIRE(out.shape()[dim] == 1);
                REQUIRE(out.size() * shape[dim] == a.size());
                for (Index r = 0; r < out.size(); ++r) {
                    const auto x = column(a, dim, r);
                    if (op == Reduction::deviation && x.size() == 1) {
                        CHECK(std::isnan(out.get(r)));
                        continue;
                    }
                    const double expected = plain(op, x);
                    REQUIRE(std::abs(out.get(r) - expected) <= 1e-12 * (1 + std::abs(expected)));
                }
            }
            for (Index r = 0; r < middle.size(); ++r) {
                const auto x = column(a, dim, r);
                REQUIRE(middle.get(r) == plain_quantile(x, 0.3));
                REQUIRE(greatest.get(r) == static_cast<double>(std::max_element(x.begin(), x.end()) - x.begin()));
            }
        }
    }
}

TEST_CASE("element i of a running reduction is that of the first i elements", "[tensor]") {
    for (Reduction op : {Reduction::sum, Reduction::prod, Reduction::maximum, Reduction::minimum}) {
        for (const Shape& shape : {Shape{9}, Shape{4, 3}, Shape{2, 5, 70}, Shape{2, 3, 1, 5}}) {
            const Tensor a = sample(shape, 8);
            for (int dim = 0; dim < shape.ndim(); ++dim) {
                CAPTURE(shape.text(), dim, static_cast<int>(op));
                const Tensor out = cumulate(op, a, dim);
                REQUIRE(out.shape() == shape);
                for (Index r = 0; r < a.size() / shape[dim]; ++r) {
                    const auto x = column(a, dim, r), y = column(out, dim, r);
                    for (std::size_t i = 1; i <= x.size(); ++i) {
                        const double expected = plain(op, {x.begin(), x.begin() + static_cast<std::ptrdiff_t>(i)});
                        REQUIRE(std::abs(y[i - 1] - expected) <= 1e-13 * (1 + std::abs(expected)));
                    }
                }
            }
        }
    }
    const Tensor broken = cumulate(Reduction::maximum, values({1, NaN, 3}), 0);
    CHECK(broken.get(0) == 1);
    CHECK(std::isnan(broken.get(2)));
    CHECK(cumulate(Reduction::prod, sample({3}, 1, DType::bf16), 0).dtype() == DType::f32);
}

TEST_CASE("sums of many small numbers stay accurate", "[tensor]") {
    const Index n = 1 << 22;
    CHECK(reduce(Reduction::sum, Tensor::full(DType::f32, {n}, 0.1f)) == static_cast<double>(0.1f) * n);
    const double exact = 0.1L * n;
    CHECK(std::abs(reduce(Reduction::sum, Tensor::full(DType::f64, {n}, 0.1)) - exact) <= 1e-15 * exact * 8);
    // Along a strided dimension too.
    const Tensor columns = reduce(Reduction::sum, Tensor::full(DType::f64, {n / 4, 4}, 0.1), 0);
    CHECK(std::abs(columns.get(3) - exact / 4) <= 1e-15 * exact * 2);
}

TEST_CASE("reductions do not depend on the number of threads", "[tensor]") {
    const int before = threads();
    const Tensor a = sample({37, 4099}, 3, DType::f32);
    std::vector<std::vector<double>> results;
    for (int n : {1, 2, 5}) {
        set_threads(n);
        std::vector<double> found{norm(a), dot(a, a)};
        for (Reduction op : every) {
            found.push_back(reduce(op, a));
            for (int dim : {0, 1}) found.push_back(reduce(Reduction::sum, reduce(op, a, dim)));
        }
        found.push_back(reduce(Reduction::sum, softmax(a)));
        results.push_back(found);
    }
    set_threads(before);
    // Bit for bit: products under- and overflow to numbers that are equal or both NaN.
    for (const auto& found : results) {
        for (std::size_t i = 0; i < found.size(); ++i)
            CHECK((found[i] == results[0][i] || (std::isnan(found[i]) && std::isnan(results[0][i]))));
    }
}

TEST_CASE("NaN and infinities are kept", "[tensor]") {
    for (Index at : {0, 5, 40}) {
        Tensor a = sample({41}, 9);
        a.set(at, NaN);
        CAPTURE(at);
        for (Reduction op : every) CHECK(std::isnan(reduce(op, a)));
        CHECK(std::isnan(norm(a)));
        CHECK(std::isnan(quantile(a, 0.5)));
        CHECK(find(Extreme::maximum, a) == at);
        CHECK(find(Extreme::minimum, a) == at);
        a.set(at, Inf);
        CHECK(reduce(Reduction::maximum, a) == Inf);
        CHECK(reduce(Reduction::sum, a) == Inf);
        CHECK(norm(a) == Inf);
        CHECK(find(Extreme::maximum, a) == at);
    }
    CHECK(quantile(values({-Inf, 1, Inf}), 0.5) == 1);
    CHECK(quantile(values({Inf, Inf}), 0.5) == Inf);
}

TEST_CASE("norms of very large and very small elements do not leave the range", "[tensor]") {
    CHECK(std::abs(norm(values({3e200, 4e200})) / 5e200 - 1) < 1e-15);
    CHECK(std::abs(norm(values({3e-200, 4e-200})) / 5e-200 - 1) < 1e-15);
    CHECK(norm(values({0, 0})) == 0);
    CHECK(norm(Tensor(DType::f64, {0})) == 0);
}

TEST_CASE("reductions of nothing", "[tensor]") {
    const Tensor none(DType::f32, {0, 3});
    CHECK(reduce(Reduction::sum, none) == 0);
    CHECK(reduce(Reduction::prod, none) == 1);
    CHECK(std::isnan(reduce(Reduction::mean, none)));
    CHECK(std::isnan(reduce(Reduction::deviation, none)));
    CHECK_THROWS_WITH(reduce(Reduction::maximum, none),
                      "maximum of a 0×3 Tensor{Float32}: expected at least one element");
    CHECK_THROWS_AS(find(Extreme::minimum, none), Error);
    CHECK_THROWS_AS(quantile(none, 0.5), Error);
    CHECK(reduce(Reduction::sum, none, 0).shape() == Shape{1, 3});
    CHECK(reduce(Reduction::sum, none, 0).get(2) == 0);
    CHECK(reduce(Reduction::maximum, none, 1).shape() == Shape{0, 1});
    CHECK_THROWS_AS(reduce(Reduction::maximum, none, 0), Error);
    CHECK_FALSE(any(none));
    CHECK(all(none));
    CHECK(cumulate(Reduction::sum, none, 0).shape() == none.shape());
    CHECK(softmax(none).shape() == none.shape());
}

TEST_CASE("softmax is stable and its rows sum to 1", "[tensor]") {
    const Tensor s = softmax(sample({3, 5, 17}, 11));
    for (Index r = 0; r < 15; ++r) CHECK(std::abs(reduce(Reduction::sum, s, 2).get(r) - 1) < 1e-14);
    const Tensor large = softmax(values({1000, 1000}));
    CHECK(large.get(0) == 0.5);
    CHECK(softmax(values({0, -1e4})).get(1) == 0);
}

TEST_CASE("dot needs equal shapes", "[tensor]") {
    CHECK_THROWS_WITH(dot(sample({2}, 1), sample({3}, 1)), "dot: shapes 2 and 3, expected two of the same shape");
    CHECK(dot(values({1, 2}, DType::f16), values({3, 4})) == 11);
}
