// A matrix of weights, as a layer uses it.
#pragma once

#include "core/model/blocks/rows.hpp"
#include "core/model/weight.hpp"

namespace causeway::model {

// y = x Wᵀ + bias, x [n, columns], y [n, rows]; rows of y lie one after the other, or `stride` numbers apart.
struct Linear {
    Weight weight;
    Buffer<float> bias{};  // [rows], or none

    Index outputs() const { return weight.rows; }

    void run(const float* x, Index n, float* y) const { run(x, n, y, weight.rows); }
    void run(const float* x, Index n, float* y, Index stride) const {
        multiply(weight, x, n, weight.columns, y, stride);
        if (bias.size() == 0) return;
        over_rows(n, weight.rows, [&](Index first, Index rows) {
            for (Index i = first; i < first + rows; ++i)
                for (Index j = 0; j < weight.rows; ++j) y[i * stride + j] += bias[j];
        });
    }
};

}  // namespace causeway::model
