// Statistics of repeated timings, and how a time grows with a length.
#pragma once

#include <span>

#include "core/base/memory.hpp"  // Index

namespace causeway {

// Of a list of values.
struct Summary {
    Index count = 0;
    double minimum = 0, median = 0, mean = 0, std = 0, maximum = 0;  // std: divided by count - 1; 0 for one value
};

// O(n log n). A NaN among the values makes every statistic NaN. Throws Error for no values at all.
Summary summarize(std::span<const double> values);

// intercept + slope x.
struct Line {
    double slope = 0, intercept = 0;
};

// The line a + b x nearest to the points in the sense of least squares, O(n). Throws Error when the lengths differ or
// fewer than two different x are given.
Line fit_line(std::span<const double> x, std::span<const double> y);

// The p of time ≈ constant · N^p: the slope of log time on log N. Throws Error when the lengths differ, a value is
// not positive and finite, or fewer than two different N are given.
double growth_exponent(std::span<const double> n, std::span<const double> seconds);

}  // namespace causeway
