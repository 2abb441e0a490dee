// The exponential of a vector against that of the long double.
#include "core/kit/exp.hpp"

#include <cmath>
#include <random>

#include "tests/catch.hpp"

using namespace causeway;

namespace {

template <class T>
double worst_exponential(double from, double to) {
    using Limits = std::numeric_limits<T>;
    std::mt19937_64 generator(1);
    std::uniform_real_distribution<double> uniform(from, to);
    double worst = 0;
    for (int i = 0; i < 20000; ++i) {
        T x[simd::lanes<T>], y[simd::lanes<T>];
        for (T& element : x) element = static_cast<T>(uniform(generator));
        simd::store(y, simd::exp<T>(simd::load(x)));
        for (int lane = 0; lane < simd::lanes<T>; ++lane) {
            const long double want = std::exp(static_cast<long double>(x[lane]));
            if (want < static_cast<long double>(Limits::min()) || want > static_cast<long double>(Limits::max()))
                continue;
            const T nearest = static_cast<T>(want);
            const long double unit =
                static_cast<long double>(nearest) - static_cast<long double>(std::nextafter(nearest, T(0)));
            const double error = static_cast<double>(std::abs(static_cast<long double>(y[lane]) - want) / unit);
            worst = error <= worst ? worst : error;
        }
    }
    return worst;
}

template <class T>
void check_edges_of_exponential() {
    using Limits = std::numeric_limits<T>;
    const auto value = [](T x) { return simd::exp<T>(simd::Vector<T>{} + x)[0]; };
    const T top = std::log(Limits::max()), bottom = std::log(Limits::min());
    CHECK(value(0) == 1);
    CHECK(value(Limits::infinity()) == Limits::infinity());
    CHECK(value(top + 1) == Limits::infinity());
    CHECK(value(Limits::max()) == Limits::infinity());
    CHECK(value(-Limits::infinity()) == 0);
    CHECK(value(Limits::lowest()) == 0);
    CHECK(value(bottom - 1) == 0);
    CHECK(value(bottom * T(0.9999)) >= Limits::min());
    CHECK(value(Limits::denorm_min()) == 1);
    CHECK(std::isnan(value(Limits::quiet_NaN())));
}

}  // namespace

TEST_CASE("the exponential of a vector is within two units in the last place", "[kit]") {
    CHECK(worst_exponential<float>(-88, 89) <= 2);
    CHECK(worst_exponential<float>(-1, 1) <= 2);
    CHECK(worst_exponential<double>(-709, 710) <= 2);
    CHECK(worst_exponential<double>(-1, 1) <= 2);
    check_edges_of_exponential<float>();
    check_edges_of_exponential<double>();
}
