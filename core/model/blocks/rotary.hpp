// Rotary positions: pairs of numbers of a head turned by an angle that grows with the position (Su et al. 2021).
#pragma once

#include <cmath>
#include <vector>

#include "core/model/blocks/rows.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway::model {

// Pair i of the token at position p is turned by p · frequency_i.
struct Rotary {
    std::vector<double> frequencies;  // one a pair: the first 2 · pairs numbers of a head are turned
    bool interleaved = false;         // pairs are (2i, 2i + 1), as in GGUF's llama; otherwise (i, i + pairs)
    double factor = 1;                // on the turned numbers

    Index pairs() const { return static_cast<Index>(frequencies.size()); }

    // theta^(−i/pairs).
    static std::vector<double> geometric(double theta, Index pairs) {
        std::vector<double> out;
        for (Index i = 0; i < pairs; ++i)
            out.push_back(std::pow(theta, -static_cast<double>(i) / static_cast<double>(pairs)));
        return out;
    }

    // cos and sin of n positions from `position` on, [n, 2, pairs]; angles in Float64.
    Buffer<float> table(Index position, Index n) const {
        Buffer<float> out(n * 2 * pairs());
        over_rows(n, 32 * pairs(), [&](Index first, Index rows) {
            for (Index t = first; t < first + rows; ++t) {
                for (Index i = 0; i < pairs(); ++i) {
                    const double angle = static_cast<double>(position + t) * frequencies[static_cast<std::size_t>(i)];
                    out[t * 2 * pairs() + i] = static_cast<float>(factor * std::cos(angle));
                    out[(t * 2 + 1) * pairs() + i] = static_cast<float>(factor * std::sin(angle));
                }
            }
        });
        return out;
    }

    // Turns x [b, h, n, d] in place, d >= 2 · pairs.
    void turn(Tensor& x, const Buffer<float>& table) const {
        const Index n = x.shape()[2], d = x.shape()[3], half = pairs();
        const Index apart = interleaved ? 1 : half, step = interleaved ? 2 : 1;
        float* data = x.data<float>();
        over_rows(x.size() / std::max<Index>(d, 1), d, [&](Index first, Index rows) {
            for (Index row = first; row < first + rows; ++row) {
                float* y = data + row * d;
                const float *cosine = table.data() + row % n * 2 * half, *sine = cosine + half;
                for (Index i = 0; i < half; ++i) {
                    float &a = y[i * step], &b = y[i * step + apart];
                    const float turned = a * cosine[i] - b * sine[i];
                    b = a * sine[i] + b * cosine[i];
                    a = turned;
                }
            }
        });
    }
};

}  // namespace causeway::model
