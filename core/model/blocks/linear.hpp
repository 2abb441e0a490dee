// A matrix of weights, as a layer uses it.
#pragma once

#include <array>
#include <vector>

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
        add_bias(n, y, stride);
    }

    void add_bias(Index n, float* y, Index stride) const {
        if (bias.size() == 0) return;
        over_rows(n, weight.rows, [&](Index first, Index rows) {
            for (Index i = first; i < first + rows; ++i)
                for (Index j = 0; j < weight.rows; ++j) y[i * stride + j] += bias[j];
        });
    }
};

// Several of one x: threads meet once behind all of them.
struct LinearTo {
    const Linear* linear;
    float* y;
    Index stride;
};
inline void run_together(std::span<const LinearTo> all, const float* x, Index n) {
    std::vector<Product> products;
    for (const LinearTo& l : all) products.push_back({&l.linear->weight, l.y, l.stride});
    multiply(products, x, n, all.front().linear->weight.columns);
    for (const LinearTo& l : all) l.linear->add_bias(n, l.y, l.stride);
}

}  // namespace causeway::model
