// What the causal mask can do to an operator norm: the constant, and matrices that come near it (claims A2, A6).
#include <cmath>
#include <numbers>

#include "core/base/error.hpp"
#include "core/kit/spread.hpp"
#include "core/lowrank/error.hpp"

namespace causeway {

using std::numbers::pi;

double masking_constant(Index n) {
    if (n < 1) fail("n: ", n, ", expected 1 or more");
    // Beyond, three terms of the expansion: s_n is the midpoint rule for 1/(π sin), whose error the zeta function gives
    // from the series of 1/sin at its poles (Navot 1962). The next term is below 1e-17 relative.
    constexpr Index summed = 512;
    if (n > summed) {
        constexpr double euler = 0.57721566490153286061;
        const double h = pi / static_cast<double>(n), s = 2 / pi *
                                                          (std::log(static_cast<double>(n)) + euler + std::log(8 / pi) +
                                                           h * h * (1.0 / 144 - h * h * 49 / 345600));
        return (1 + s) / 2;
    }
    double sum = 0;  // of half the terms: they are symmetric
    for (Index m = n / 2 - 1; m >= 0; --m)
        sum += 1 / std::sin(static_cast<double>(2 * m + 1) * pi / static_cast<double>(2 * n));
    return (1 + (2 * sum + static_cast<double>(n % 2)) / static_cast<double>(n)) / 2;
}

Tensor masked_worst_case(Index n, const std::string& which) {
    if (n < 1) fail("n: ", n, ", expected 1 or more");
    if (which != "W" && which != "G" && which != "H") fail("which: \"", which, "\", expected \"W\", \"G\" or \"H\"");
    Tensor X(DType::f64, Shape{n, n});
    const char kind = which[0];
    const double size = static_cast<double>(n);
    kit::each_block(n, [&](Index first, Index rows) {
        for (Index i = first; i < first + rows; ++i) {
            for (Index j = 0; j < n; ++j) {
                const double step = static_cast<double>(i - j);
                X.data<double>()[i * n + j] = kind == 'W'   ? 1 / (size * std::sin(pi * (step + 0.5) / size))
                                              : kind == 'G' ? 1 / (step + 0.5)
                                              : i == j      ? 0
                                                            : 1 / step;
            }
        }
    });
    return X;
}

}  // namespace causeway
