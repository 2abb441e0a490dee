// What H5 and H11 (proofs/energy.md, proofs/tree.md) allow an output of softmax attention to be off, and the exact
// output that it is measured against.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "core/base/memory.hpp"  // Index
#include "tests/proofs/claims.hpp"

namespace causeway::proofs {

inline double ln(Index n) { return std::log(static_cast<double>(n)); }
inline Index ceil_lg(Index n) { return static_cast<Index>(std::bit_width(static_cast<std::size_t>(n - 1))); }

// u(mean · Σ P|v| + far · Σ P|v||ln w|), w = e^{s - max s} the weight of a key.
struct Allowed {
    double mean, far;

    Allowed plus(double more) const { return {mean + more, far}; }  // of Σ P|v|
};

// H5: any tree of N leaves, exponentials within one rounding.
inline Allowed of_tree(double depth, Index N) {
    return {6 * depth + ln(N) + 8, faulty("H11: without Σ P|v||ln w|", 1.0, 0.0)};
}
// The same without the second sum. It is false.
inline Allowed without_weights(double depth, Index N) { return {2 * (3 * depth + ln(N) + 4), 0}; }
// H5 where exponentials are off by two units in the last place, four roundings, as those of core/kit/exp.hpp are.
inline Allowed of_flash(Index N) { return {12 * static_cast<double>(N) + ln(N) + 8, 1}; }

// H11: tree decoding over p equal shards. rounds: combines one after the other in the all-reduce. largest_lse: the
// largest |lse| of a shard, which Algorithm 3 alone rounds.
inline Allowed of_decode(int algorithm, Index N, Index p, double largest_lse, Index rounds) {
    const double t = static_cast<double>((N + p - 1) / p), lg = static_cast<double>(rounds);
    switch (algorithm) {
        case 1: return {2 * t + 8 * lg + (3 * lg + 2) * ln(N) + 12, lg + 2};
        case 2: return {2 * t + 3 * lg + (2 * lg + 4) * ln(N) + 12, 2};
        case 3: return {6 * t + 2 * lg + 3 * ln(N) + 12 + 2 * largest_lse, 1};
        default: return of_tree(t + lg, N);
    }
}
inline Allowed of_decode(int algorithm, Index N, Index p, double largest_lse = 0) {
    return of_decode(algorithm, N, p, largest_lse, ceil_lg(p));
}

// One query: z = Σ P v of scores that are exact, and the two sums that its error is measured by. Of N >= 1 keys.
struct Attended {
    long double z = 0, mean = 0, far = 0, lse = 0, D = 0;
    double farthest = 0;  // largest |ln w|

    Attended(const std::vector<double>& s, const std::vector<double>& v) {
        const long double m = *std::max_element(s.begin(), s.end());
        for (std::size_t a = 0; a < s.size(); ++a) {
            const long double down = m - static_cast<long double>(s[a]), w = std::exp(-down), x = w * std::abs(v[a]);
            D += w, z += w * v[a], mean += x, far += x * down;
            farthest = std::max(farthest, static_cast<double>(down));
        }
        z /= D, mean /= D, far /= D, lse = m + std::log(D);
    }
    // Error over what is allowed; NaN where `got` is not a number.
    double share(double got, double u, const Allowed& a) const {
        const long double error = std::abs(got - z);
        return error == 0 ? 0 : static_cast<double>(error / (u * (a.mean * mean + a.far * far)));
    }
};

// The largest |lse| of p shards, keys r N/p ... of shard r.
inline double largest_lse(const std::vector<double>& s, Index p) {
    const Index n = static_cast<Index>(s.size());
    double most = 0;
    for (Index r = 0; r < p; ++r) {
        const std::vector<double> shard(s.begin() + r * n / p, s.begin() + (r + 1) * n / p);
        if (!shard.empty()) most = std::max(most, std::abs(static_cast<double>(Attended(shard, shard).lse)));
    }
    return most;
}

}  // namespace causeway::proofs
