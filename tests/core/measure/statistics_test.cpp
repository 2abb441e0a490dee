#include "core/measure/statistics.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "core/base/parallel.hpp"
#include "core/measure/copy_rate.hpp"
#include "core/measure/machine.hpp"
#include "core/measure/product_rate.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using causeway::testing::message_of;

namespace {

bool near(double a, double b) { return std::abs(a - b) <= 1e-12 * (1 + std::abs(b)); }  // false for NaN

}  // namespace

TEST_CASE("a summary of values", "[measure]") {
    const Summary s = summarize(std::vector<double>{3, 1, 4, 1, 5});
    CHECK(s.count == 5);
    CHECK(s.minimum == 1);
    CHECK(s.median == 3);
    CHECK(near(s.mean, 2.8));
    CHECK(near(s.std, std::sqrt((0.04 + 3.24 + 1.44 + 3.24 + 4.84) / 4)));
    CHECK(s.maximum == 5);
    CHECK(summarize(std::vector<double>{1, 2, 3, 10}).median == 2.5);
    CHECK(summarize(std::vector<double>{7}).std == 0);
    CHECK(message_of([] { summarize({}); }) == "values: none given, expected at least one number");
}

TEST_CASE("a NaN makes every statistic NaN", "[measure]") {
    const Summary s = summarize(std::vector<double>{1, std::numeric_limits<double>::quiet_NaN(), 2});
    for (const double value : {s.minimum, s.median, s.mean, s.std, s.maximum}) CHECK(std::isnan(value));
}

TEST_CASE("the least-squares line", "[measure]") {
    const Line exact = fit_line(std::vector<double>{0, 1, 2}, std::vector<double>{1, 3, 5});
    CHECK(near(exact.slope, 2));
    CHECK(near(exact.intercept, 1));
    const Line noisy = fit_line(std::vector<double>{0, 1, 2, 3}, std::vector<double>{1, 3, 2, 4});
    CHECK(near(noisy.slope, 0.8));
    CHECK(near(noisy.intercept, 1.3));
    CHECK(message_of([] {
              fit_line(std::vector<double>{1, 2}, std::vector<double>{1});
          }) == "y: 1 values, expected 2 like x");
    CHECK(message_of([] {
              fit_line(std::vector<double>{2, 2}, std::vector<double>{1, 5});
          }) == "x: all values are 2, expected at least two different ones");
}

TEST_CASE("the growth exponent of a power is its exponent", "[measure]") {
    std::vector<double> n, linear, square, log_linear;
    for (double k = 2048; k <= 131072; k *= 2) {
        n.push_back(k);
        linear.push_back(3e-9 * k);
        square.push_back(5e-12 * k * k);
        log_linear.push_back(1e-9 * k * std::log2(k));
    }
    CHECK(near(growth_exponent(n, linear), 1));
    CHECK(near(growth_exponent(n, square), 2));
    const double above_one = growth_exponent(n, log_linear);
    CHECK(above_one > 1.05);
    CHECK(above_one < 1.2);
    CHECK(message_of([&] { growth_exponent(n, std::vector<double>(n.size(), 0.0)); }) ==
          "time: 0, expected positive numbers");
}

TEST_CASE("the machine is named", "[measure]") {
    const Machine& m = machine();
    CHECK(m.cores >= 1);
    CHECK(m.memory > (std::size_t{1} << 20));
    for (const auto& text : {m.processor, m.simd, m.system, m.compiler, m.eigen, m.version}) CHECK(!text.empty());
}

TEST_CASE("the product rate is a rate", "[measure]") {
    const int before = threads();
    for (const int n : {1, 2}) {
        set_threads(n);
        const double rate = product_rate(32);
        CHECK(rate > 1e6);
        CHECK(rate < 1e15);
    }
    set_threads(before);
    CHECK(message_of([] { product_rate(0); }) == "n: 0, expected a number from 1 to 4096");
    CHECK(message_of([] { product_rate(16, DType::f16); }) ==
          "dtype: Float16 only stores, expected Float32 or Float64");
}

TEST_CASE("the copy rate is a rate", "[measure]") {
    for (const Index bytes : {Index{1}, Index{1000}, (Index{1} << 20) + 1}) {
        const double rate = copy_rate(bytes, 0.001);
        CHECK(rate > 1e5);
        CHECK(rate < 1e15);
    }
    CHECK(message_of([] { copy_rate(0); }) == "bytes: 0, expected 1 or more");
    for (const Index bytes : {Index(1), Index(100), (Index(1) << 20) + 3}) {
        const double rate = read_rate(bytes, 0.001);
        CHECK(rate > 0);
        CHECK(rate < 1e13);
    }
    CHECK(message_of([] { read_rate(0); }) == "bytes: 0, expected 1 or more");
}
