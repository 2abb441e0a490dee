// Normalisation of rows.
#pragma once

#include <cmath>
#include <utility>

#include "core/around/norms.hpp"
#include "core/model/blocks/rows.hpp"

namespace causeway::model {

// y = (x − μ) / √(mean((x − μ)²) + ε) ⊙ weight + bias over groups of `width` numbers, with μ = 0 for the root mean
// square, and the mean for a layer norm. Without weights it is the simple one. Weights are of a group, or of all the
// groups of a row one after the other.
struct Norm {
    Index width = 0;
    double eps = 0;
    bool centred = false;  // μ is the mean
    Buffer<float> weight{}, bias{};

    // n rows of `row` numbers, a multiple of the width; y may be x.
    void run(const float* x, Index n, Index row, float* y) const {
        over_rows(n, row, [&](Index first, Index rows) {
            for (Index i = first; i < first + rows; ++i)
                for (Index at = 0; at < row; at += width)
                    group(x + i * row + at, y + i * row + at, weight.size() > width ? at : 0);
        });
    }

private:
    void group(const float* x, float* y, Index at) const {
        const double count = static_cast<double>(width);
        if (centred) {
            const double mean = around::sum_of(x, width, [](double e) { return e; }) / count;
            const double square =
                around::sum_of(x, width, [mean](double e) { return (e - mean) * (e - mean); }) / count;
            const float factor = static_cast<float>(1 / std::sqrt(square + eps)), shift = static_cast<float>(mean);
            for (Index i = 0; i < width; ++i) y[i] = (x[i] - shift) * factor;
        } else {
            const float factor = around::rms_factor(x, width, eps);
            for (Index i = 0; i < width; ++i) y[i] = x[i] * factor;
        }
        if (weight.size() > 0)
            for (Index i = 0; i < width; ++i) y[i] *= weight[at + i];
        if (bias.size() > 0)
            for (Index i = 0; i < width; ++i) y[i] += bias[at + i];
    }
};

}  // namespace causeway::model
