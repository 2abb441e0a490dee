#include "core/measure/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.hpp"

namespace causeway {
namespace {

double mean_of(std::span<const double> values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
}

void require_same_length(const char* a, std::size_t n, const char* b, std::size_t m) {
    if (n != m) fail(b, ": ", m, " values, expected ", n, " like ", a);
}

Buffer<double> logarithms(std::span<const double> values, const char* name) {
    Buffer<double> out(static_cast<Index>(values.size()));
    Index i = 0;
    for (const double value : values) {
        if (!(value > 0) || !std::isfinite(value)) fail(name, ": ", value, ", expected positive numbers");
        out[i++] = std::log(value);
    }
    return out;
}

}  // namespace

Summary summarize(std::span<const double> values) {
    if (values.empty()) fail("values: none given, expected at least one number");
    Summary s;
    s.count = static_cast<Index>(values.size());
    if (std::any_of(values.begin(), values.end(), [](double v) { return std::isnan(v); })) {
        s.minimum = s.median = s.mean = s.std = s.maximum = std::numeric_limits<double>::quiet_NaN();
        return s;
    }
    Buffer<double> sorted(s.count);
    std::copy(values.begin(), values.end(), sorted.data());
    std::sort(sorted.data(), sorted.data() + s.count);
    s.minimum = sorted[0];
    s.maximum = sorted[s.count - 1];
    s.median = s.count % 2 == 1 ? sorted[s.count / 2] : sorted[s.count / 2 - 1] / 2 + sorted[s.count / 2] / 2;
    s.mean = mean_of(values);
    double squares = 0;
    for (const double value : values) squares += (value - s.mean) * (value - s.mean);
    s.std = s.count > 1 ? std::sqrt(squares / static_cast<double>(s.count - 1)) : 0;
    return s;
}

Line fit_line(std::span<const double> x, std::span<const double> y) {
    require_same_length("x", x.size(), "y", y.size());
    if (x.size() < 2) fail("x: ", x.size(), " values, expected at least two different ones");
    const double mx = mean_of(x), my = mean_of(y);
    double xx = 0, xy = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        xx += (x[i] - mx) * (x[i] - mx);
        xy += (x[i] - mx) * (y[i] - my);
    }
    if (xx == 0) fail("x: all values are ", x[0], ", expected at least two different ones");
    return {xy / xx, my - xy / xx * mx};
}

double growth_exponent(std::span<const double> n, std::span<const double> seconds) {
    require_same_length("N", n.size(), "time", seconds.size());
    if (n.size() < 2) fail("N: ", n.size(), " values, expected at least two different ones");
    const Buffer<double> x = logarithms(n, "N"), y = logarithms(seconds, "time");
    if (std::all_of(x.data(), x.data() + x.size(), [&](double value) { return value == x[0]; }))
        fail("N: all values are ", n[0], ", expected at least two different ones");
    return fit_line({x.data(), n.size()}, {y.data(), seconds.size()}).slope;
}

}  // namespace causeway
