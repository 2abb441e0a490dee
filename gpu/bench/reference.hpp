// What the benches of linear attention compare with: the recurrence in Float64 on the CPU.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "gpu/bench/bench.hpp"

namespace causeway::gpu::bench {

// ‖o - reference‖² and ‖reference‖² of one head, by the recurrence S ← γ S + kᵀ v, o = q S in Float64; and Σ
// ‖q‖²‖k‖²‖v‖² / r, what a row's own term has of it where its score is neither large nor small. Reversed: from the last
// token to the first.
struct Deviation {
    double error = 0, norm = 0, size = 0;
    bool clean = true;  // no NaN or Inf
};

inline Deviation deviation(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
                           const std::vector<double>& o, std::int64_t N, int r, int d, double gamma,
                           bool reversed = false) {
    std::vector<double> S(static_cast<std::size_t>(r) * d), row(static_cast<std::size_t>(d));
    Deviation x;
    for (std::int64_t n = 0; n < N; ++n) {
        const std::int64_t t = reversed ? N - 1 - n : n;
        std::fill(row.begin(), row.end(), 0.0);
        double q2 = 0, k2 = 0, v2 = 0;
        for (int i = 0; i < r; ++i) q2 += q[t * r + i] * q[t * r + i], k2 += k[t * r + i] * k[t * r + i];
        for (int j = 0; j < d; ++j) v2 += v[t * d + j] * v[t * d + j];
        x.size += q2 * k2 * v2 / r;
        for (int i = 0; i < r; ++i) {
            double* s = S.data() + static_cast<std::size_t>(i) * d;
            const double ki = k[t * r + i], qi = q[t * r + i];
            const double* vt = v.data() + t * d;
            for (int j = 0; j < d; ++j) {
                s[j] = gamma * s[j] + ki * vt[j];
                row[j] += qi * s[j];
            }
        }
        for (int j = 0; j < d; ++j) {
            const double e = o[t * d + j] - row[j];
            if (!std::isfinite(o[t * d + j])) x.clean = false;
            x.error += e * e, x.norm += row[j] * row[j];
        }
    }
    return x;
}

// exp(-2^(-8 (h+1) / H)): Press et al. 2022.
inline std::vector<double> alibi(std::int64_t H) {
    std::vector<double> gamma;
    for (std::int64_t h = 0; h < H; ++h)
        gamma.push_back(std::exp(-std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(H))));
    return gamma;
}

}  // namespace causeway::gpu::bench
