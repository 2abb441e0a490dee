// Claims D1 (proofs/fleet.md), E1 (proofs/decay.md), E4 (proofs/gates.md), G10 (proofs/backward.md), H2
// (proofs/energy.md).
#include "core/bounds/sums.hpp"

#include <algorithm>
#include <limits>

#include "core/base/error.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/text.hpp"

namespace causeway::bounds {
namespace {

// f(zero), zero of the type that errors are measured in.
template <class F>
auto in_type(const Given& given, F&& f) {
    return given.type() == DType::f64 ? f(0.0) : f(0.0f);
}

std::vector<Row> two_sides(const Given& given) {
    const Point b = given.numbers("b"), c = given.numbers("c");
    const Matrix M = given.matrix("M");
    double off = 0, apart = 0;
    in_type(given, [&](auto zero) {
        for (Index i = 0; i < M.rows(); ++i)
            for (Index j = 0; j < M.cols(); ++j) {
                const Sides<decltype(zero)> x(b[static_cast<std::size_t>(i)], M(i, j), c[static_cast<std::size_t>(j)]);
                off = worst(off, x.off), apart = worst(apart, x.apart);
            }
        return 0;
    });
    return {{"either side, relative", off, budget(2, given.u())},
            {"their difference, relative", apart, 2 * budget(2, given.u())}};
}

std::vector<Row> discounted(const Given& given) {
    const double lambda = given.number("decay", 1);
    if (!(lambda >= 0 && lambda <= 1 - 1000 * given.u()))
        fail("decay: ", number_text(lambda), ", expected a number from 0 to below 1");
    const Point v = given.numbers("v");
    // In the type that is measured, so that its rounding is not among the errors.
    return {in_type(given, [&](auto zero) {
        using T = decltype(zero);
        return discounted_sum<T>(v, static_cast<double>(static_cast<T>(lambda)), given.u());
    })};
}

std::vector<Row> products_of_gates(const Given& given) {
    const Point a = given.gates("a");
    return {in_type(given, [&](auto zero) {
        using T = decltype(zero);
        Row out{"Λ_tj, relative", 0, budget(1, given.u())};
        for (std::size_t j = 0; j < a.size(); ++j) {
            interrupt::check();
            RunningProduct<T> product;
            for (std::size_t t = j; t < a.size(); ++t) {
                product.multiply(a[t]);
                if (product.exact() != 0 && product.exact() < std::numeric_limits<T>::min()) break;  // it underflows
                const Row row{"Λ_tj of " + std::to_string(t - j + 1) + " gates, relative", product.error(),
                              budget(real(static_cast<Index>(t - j + 1)), given.u())};
                out = nearer(out, row);
            }
        }
        return out;
    })};
}

std::vector<Row> carries(const Given& given) {
    const Matrix x = given.matrix("x");
    return {nearest(x.cols(), [&](Index c) {
        return in_type(given, [&](auto zero) {
            return rebuilt_carries<decltype(zero)>({x.col(c).data(), static_cast<std::size_t>(x.rows())}, given.u());
        });
    })};
}

std::vector<Row> series(const Given& given) {
    Row row = moments(given.numbers("s"), given.numbers("y"), given.whole("moments", 2));
    row.bound = row.bound * own_roundings + 1e-15;
    return {row};
}

}  // namespace

Row moments(std::span<const double> s, std::span<const double> y, Index m) {
    const double top = *std::max_element(s.begin(), s.end());
    Long Z = 0, ratio = 0, sum = 0, largest = 0;
    for (std::size_t a = 0; a < s.size(); ++a) {
        const Long w = std::exp(static_cast<Long>(s[a]) - top), x = y[a];
        Long series = 1, term = 1;
        for (Index n = 1; n <= m; ++n) series += term *= x / static_cast<Long>(n);
        Z += w, ratio += w * std::exp(x), sum += w * series, largest = std::max(largest, std::abs(x));
    }
    Long bound = std::exp(largest);
    for (Index n = 1; n <= m + 1; ++n) bound *= largest / static_cast<Long>(n);
    return {"|Z(ζ)/Z - Σ ⟨(ζ·v)ⁿ⟩/n!|", static_cast<double>(std::abs(ratio - sum) / Z), static_cast<double>(bound)};
}

std::vector<Claim> sum_claims() {
    return {
        {"D1",
         "(b cᵀ) ⊙ M = diag(b) M diag(c), to two roundings",
         "proofs/fleet.md",
         "fleet 4.2",
         {{"b", "[n]", "factors of the rows"}, {"M", "[n, m]", "a matrix"}, {"c", "[m]", "factors of the columns"}},
         two_sides},
        {"E1",
         "a discounted sum: its error does not grow with N",
         "proofs/decay.md",
         "fleet 4.2",
         {{"v", "[N]", "the terms"}, {"decay", "number", "λ from 0 to below 1"}},
         discounted},
        {"E4",
         "products of gates: as many roundings as gates",
         "proofs/gates.md",
         "derived",
         {{"a", "[n]", "the gates, in [0, 1]"}},
         products_of_gates,
         "Λ_tj: the product of the gates behind j up to t"},
        {"G10",
         "carries of T blocks rebuilt by subtraction",
         "proofs/backward.md",
         "derived",
         {{"x", "[T, m]", "what each of T blocks adds to a carry"}},
         carries},
        {"H2",
         "moments: the remainder of the series of Z(ζ)/Z",
         "proofs/energy.md",
         "tree 3",
         {{"s", "[N]", "scores"},
          {"y", "[N]", "ζ·v of each key"},
          {"moments", "whole number", "of the series; 2", true}},
         series,
         "Z(ζ)/Z: the mean of exp(ζ·v) under softmax(s), ⟨·⟩ such a mean"},
    };
}

}  // namespace causeway::bounds
