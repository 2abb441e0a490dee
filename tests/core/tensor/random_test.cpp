#include "core/tensor/random.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/base/parallel.hpp"
#include "core/tensor/rearrange.hpp"
#include "core/tensor/reduce.hpp"
#include "tests/catch.hpp"
#include "tests/core/tensor/sample.hpp"

using namespace causeway;

namespace {

// Restores the number of threads when the test ends.
struct Restore {
    ~Restore() { set_threads(before); }
    int before = threads();
};

// Largest distance between the empirical distribution function of the elements and `distribution`.
double kolmogorov(const Tensor& a, const std::function<double(double)>& distribution) {
    std::vector<double> x;
    for (Index i = 0; i < a.size(); ++i) x.push_back(a.get(i));
    std::sort(x.begin(), x.end());
    const auto n = static_cast<double>(x.size());
    double most = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double f = distribution(x[i]), k = static_cast<double>(i);
        most = std::max({most, f - k / n, (k + 1) / n - f});
    }
    return most;
}

double normal_distribution(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

}  // namespace

TEST_CASE("the generator is Philox4x32-10", "[tensor][random]") {
    // The known answer for the key 0 and the counter 0, published with Random123: 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
    random::set_seed(0);
    const Tensor u = random::uniform(DType::f32, {4});
    CHECK(u.get(0) == (0x6627e8d5u >> 8) * 0x1p-24);
    CHECK(u.get(1) == (0xe169c58du >> 8) * 0x1p-24);
    CHECK(u.get(2) == (0xbc57ac4cu >> 8) * 0x1p-24);
    CHECK(u.get(3) == (0x9b00dbd8u >> 8) * 0x1p-24);
}

TEST_CASE("golden values: the same on every machine", "[tensor][random]") {
    // Made with an independent implementation (Philox in Python, statistics.NormalDist().inv_cdf).
    random::set_seed(2024);
    const auto check = [](const Tensor& a, std::initializer_list<double> expected) {
        Index i = 0;
        for (double v : expected) CHECK(a.get(i++) == v);
    };
    check(random::uniform(DType::f32, {6}),
          {0x1.3516d6p-1, 0x1.13024p-2, 0x1.f81d52p-1, 0x1.5668cp-4, 0x1.62985p-2, 0x1.be5b1p-2});
    check(random::normal(DType::f32, {6}),
          {-0x1.1018ap-1, 0x1.57da44p-2, -0x1.073c9ap-3, -0x1.d2781ap-1, -0x1.100d12p-1, -0x1.39973ap+1});
    check(random::uniform(DType::f64, {3}), {0x1.7b54b672bfdd0p-2, 0x1.293281b477879p-1, 0x1.a749b2ba36f34p-1});
    check(random::normal(DType::f64, {3}), {-0.7139599679532317, 0.8606826396201745, 0.7531353871882193});
    check(random::permutation(10), {1, 10, 4, 3, 6, 2, 9, 8, 7, 5});
    CHECK(random::seed() == 2024);
}

TEST_CASE("normal quantiles are accurate in the middle and in both tails", "[tensor][random]") {
    const std::pair<double, double> known[] = {
        {1e-300, -37.0470962993612},   {1e-20, -9.262340089798405}, {0x1p-53, -8.209536151601386},
        {1e-5, -4.2648907939228256},   {0.01, -2.3263478740408408}, {0.074, -1.4466320671589785},
        {0.0751, -1.4388253927525398}, {0.3, -0.5244005127080407},  {0.5, 0.0},
        {0.7, 0.5244005127080407},     {0.93, 1.4757910281791708},  {0.999, 3.090232306167813}};
    for (const auto& [p, z] : known) CHECK(std::abs(random::normal_quantile(p) - z) <= 2e-15 * std::abs(z));
    for (double z = -6; z <= 6; z += 0.01)
        CHECK(std::abs(normal_distribution(random::normal_quantile(normal_distribution(z))) - normal_distribution(z)) <=
              1e-15);
}

TEST_CASE("a seed fixes every later call, and calls differ", "[tensor][random]") {
    random::set_seed(7);
    const Tensor a = random::normal(DType::f32, {1000}), b = random::normal(DType::f32, {1000});
    CHECK_FALSE(identical(a, b));
    random::set_seed(7);
    CHECK(identical(random::normal(DType::f32, {1000}), a));
    CHECK(identical(random::normal(DType::f32, {1000}), b));
    random::set_seed(8);
    CHECK_FALSE(identical(random::normal(DType::f32, {1000}), a));
}

TEST_CASE("element i does not depend on the shape or the number of threads", "[tensor][random]") {
    const Restore restore;
    for (DType type : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
        set_threads(1);
        random::set_seed(11);
        const Tensor one = random::uniform(type, {70001}), normal = random::normal(type, {70001});
        set_threads(3);
        random::set_seed(11);
        CHECK(identical(random::uniform(type, {70001}), one));
        CHECK(identical(random::normal(type, {70001}), normal));
        random::set_seed(11);
        const Tensor longer = random::uniform(type, {2, 50000});
        bool equal = true;
        for (Index i = 0; i < one.size(); ++i) equal = equal && longer.get(i) == one.get(i);
        CHECK(equal);
    }
}

TEST_CASE("uniform numbers lie in [0, 1) and are uniform", "[tensor][random]") {
    const Index n = 100000;
    for (DType type : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
        CAPTURE(name(type));
        random::set_seed(5);
        const Tensor u = random::uniform(type, {n});
        CHECK(reduce(Reduction::minimum, u) >= 0);
        CHECK(reduce(Reduction::maximum, u) < 1);
        // Five standard errors; a bfloat16 lies on average half of 2^-8 below.
        CHECK(std::abs(reduce(Reduction::mean, u) - 0.5) <
              5 / std::sqrt(12.0 * n) + (is_storage_only(type) ? 0x1p-9 : 0));
        if (!is_storage_only(type))
            CHECK(kolmogorov(u, [](double x) { return x; }) < 2.7 / std::sqrt(n));  // exceeded with probability 1e-6
    }
}

TEST_CASE("normal numbers are normal", "[tensor][random]") {
    const Index n = 100000;
    for (DType type : {DType::f32, DType::f64}) {
        random::set_seed(6);
        const Tensor z = random::normal(type, {n});
        CHECK(std::abs(reduce(Reduction::mean, z)) < 5 / std::sqrt(n));
        CHECK(std::abs(reduce(Reduction::deviation, z) - 1) < 5 / std::sqrt(2.0 * n));
        CHECK(kolmogorov(z, normal_distribution) < 2.7 / std::sqrt(n));
        CHECK(reduce(Reduction::maximum, z) > 3.5);
        CHECK(reduce(Reduction::minimum, z) < -3.5);
        // Neighbours and calls are not correlated.
        const Tensor other = random::normal(type, {n});
        CHECK(std::abs(dot(z, other)) < 5 * std::sqrt(n));
        double neighbours = 0;
        for (Index i = 1; i < n; ++i) neighbours += z.get(i) * z.get(i - 1);
        CHECK(std::abs(neighbours) < 5 * std::sqrt(n));
    }
}

TEST_CASE("permutations hold every number once, and every order is as likely", "[tensor][random]") {
    random::set_seed(3);
    for (Index n : {0, 1, 2, 1000}) {
        const Tensor p = random::permutation(n);
        std::vector<double> x;
        for (Index i = 0; i < n; ++i) x.push_back(p.get(i));
        std::sort(x.begin(), x.end());
        for (Index i = 0; i < n; ++i) CHECK(x[static_cast<std::size_t>(i)] == static_cast<double>(i + 1));
    }
    int counts[6] = {};
    const int draws = 6000;
    for (int i = 0; i < draws; ++i) {
        const Tensor p = random::permutation(3);
        ++counts[static_cast<int>(p.get(0) - 1) * 2 + (p.get(1) > p.get(2))];
    }
    for (int count : counts) CHECK(std::abs(count - draws / 6) < 5 * std::sqrt(draws / 6.0));
    CHECK(random::permutation(Index{5}).dtype() == DType::f32);
    CHECK_THROWS_WITH(random::permutation(-1), "randperm: n: -1, expected 0 or more");
}
