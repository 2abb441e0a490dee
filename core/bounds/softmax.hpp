// What H5 and H11 (proofs/energy.md, proofs/tree.md) allow an output of softmax attention to be off, and the exact
// output that it is measured against.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/bounds/claim.hpp"
#include "core/distributed/merge.hpp"

namespace causeway::bounds {

// u(mean · Σ P|v| + far · Σ P|v||ln w|), w = e^{s - max s} the weight of a key.
struct Allowed {
    double mean, far;

    Allowed plus(double more) const { return {mean + more, far}; }  // of Σ P|v|
};

// H5: any tree of N leaves, exponentials within one rounding.
inline Allowed of_tree(double depth, Index N) { return {6 * depth + ln(N) + 8, 1}; }
// H5 where exponentials are off by two units in the last place, four roundings, as those of core/kit/exp.hpp are.
inline Allowed of_flash(Index N) { return {12 * real(N) + ln(N) + 8, 1}; }

// H11: tree decoding over p equal shards. rounds: combines one after the other in the all-reduce. largest_lse: the
// largest |lse| of a shard, which Algorithm 3 alone rounds. Algorithm 0: packed triples.
inline Allowed of_decode(int algorithm, Index N, Index p, double largest_lse, Index rounds) {
    const double t = real(ceil_div(N, p)), lg = real(rounds);
    switch (algorithm) {
        case 1: return {2 * t + 8 * lg + (3 * lg + 2) * ln(N) + 12, lg + 2};
        case 2: return {2 * t + 3 * lg + (2 * lg + 4) * ln(N) + 12, 2};
        case 3: return {6 * t + 2 * lg + 3 * ln(N) + 12 + 2 * largest_lse, 1};
        default: return of_tree(t + lg, N);
    }
}

// One query: z = Σ P v of scores that are exact, and the two sums that its error is measured by. Of N >= 1 keys.
struct Attended {
    Long z = 0, mean = 0, far = 0, lse = 0, D = 0;
    double farthest = 0;  // largest |ln w|

    template <class Scores>
    Attended(const Scores& s, const std::vector<double>& v) {
        const Long m = *std::max_element(s.begin(), s.end());
        for (std::size_t a = 0; a < s.size(); ++a) {
            const Long down = m - static_cast<Long>(s[a]), w = std::exp(-down), x = w * std::abs(v[a]);
            D += w, z += w * v[a], mean += x, far += down > 0 ? x * down : 0;
            farthest = std::max(farthest, static_cast<double>(down));
        }
        z /= D, mean /= D, far /= D, lse = m + std::log(D);
    }
    // Error over what is allowed; NaN where `got` is not a number.
    double share(double got, double u, const Allowed& a) const {
        const Long error = std::abs(got - z);
        return error == 0 ? 0 : static_cast<double>(error / (u * (a.mean * mean + a.far * far)));
    }
    Row row(const std::string& what, double got, double u, const Allowed& a) const {
        return {what, static_cast<double>(std::abs(got - z)), static_cast<double>(u * (a.mean * mean + a.far * far))};
    }
};

// The largest |lse| of p shards, keys r N/p ... of shard r.
template <class Scores>
double largest_lse(const Scores& s, Index p) {
    const Index n = static_cast<Index>(s.size());
    double most = 0;
    for (Index r = 0; r < p; ++r) {
        const Scores shard(s.begin() + r * n / p, s.begin() + (r + 1) * n / p);
        if (shard.empty()) continue;
        const std::vector<double> any(shard.size(), 1);
        most = std::max(most, std::abs(static_cast<double>(Attended(shard, any).lse)));
    }
    return most;
}

// H5: the triples (m, D, n) of keys of these scores, merged one by one or in pairs.
template <class T>
std::array<T, 3> merged(const Point& s, const Point& v, bool pairs) {
    std::vector<std::array<T, 3>> all;
    for (std::size_t i = 0; i < s.size(); ++i) all.push_back({static_cast<T>(s[i]), 1, static_cast<T>(v[i])});
    const distributed::MergeTriples<T> merge{1};
    if (!pairs) {
        for (std::size_t i = 1; i < all.size(); ++i) merge(all[0].data(), all[i].data(), 1);
    } else {
        for (std::size_t step = 1; step < all.size(); step *= 2)
            for (std::size_t i = 0; i + step < all.size(); i += 2 * step) merge(all[i].data(), all[i + step].data(), 1);
    }
    return all[0];
}
// The most merges that a leaf of N meets there.
inline Index merge_depth(Index N, bool pairs) { return pairs ? ceil_lg(N) : N - 1; }
// D of such a triple against u (3 depth + ln N + 4) D.
inline Row denominator(const std::string& what, double D, const Attended& exact, double depth, Index N, double u) {
    return {what, static_cast<double>(std::abs(D - exact.D) / exact.D), u * (3 * depth + ln(N) + 4)};
}

// H7: the energy F = lse that Algorithm 1 returns, of shards of t keys in λ rounds.
inline double energy_roundings(double t, double rounds, Index N, double F) {
    return t + 1.5 * rounds + (3 + 2 * rounds) * ln(N) + 4 + std::abs(F);
}

// H10: one plain sum of e^{s - B}(1, v) over p shards of equal keys, B a bound on the scores known beforehand. Product
// and sum are fused, as most processors have it.
template <class T>
double one_sum(const Point& s, const Point& v, Index p, double bound) {
    const T B = static_cast<T>(bound);
    const std::size_t N = s.size(), shards = static_cast<std::size_t>(p);
    T D = 0, n = 0;
    for (std::size_t r = 0; r < shards; ++r) {
        T part_D = 0, part_n = 0;
        for (std::size_t j = r * N / shards; j < (r + 1) * N / shards; ++j) {
            const T w = std::exp(static_cast<T>(s[j]) - B);
            part_D += w, part_n = std::fma(w, static_cast<T>(v[j]), part_n);
        }
        D += part_D, n += part_n;
    }
    return static_cast<double>(n / D);
}
Allowed of_one_sum(const Point& s, Index p, double bound);

// H12: scores shifted by h, and their maximum taken away again; the largest |s + h| is what is allowed by.
template <class T>
struct Shifted {
    double z, most;
    Shifted(const Point& scores, const Point& v, double h) {
        std::vector<T> s;
        T m = -INFINITY, D = 0, n = 0, largest = 0;
        for (const double score : scores) {
            s.push_back(static_cast<T>(score) + static_cast<T>(h));
            m = std::max(m, s.back()), largest = std::max(largest, std::abs(s.back()));
        }
        for (std::size_t j = 0; j < s.size(); ++j)
            D += std::exp(s[j] - m), n += std::exp(s[j] - m) * static_cast<T>(v[j]);
        z = static_cast<double>(n / D), most = static_cast<double>(largest);
    }
    Allowed allowed(Index N) const { return {4 * most + 2 * real(N) + ln(N) + 8, 0}; }
};

}  // namespace causeway::bounds
