#include "core/model/sample.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/base/text.hpp"
#include "core/kit/exp.hpp"
#include "core/model/model.hpp"

namespace causeway::model {

double log_sum_exp(const float* x, Index n) {
    constexpr Index L = simd::lanes<float>;
    float largest = -INFINITY;
    for (Index i = 0; i < n; ++i) {
        if (std::isnan(x[i])) return NAN;
        largest = std::max(largest, x[i]);
    }
    if (!std::isfinite(largest)) return largest;
    double sum = 0;
    Index i = 0;
    for (; i + L <= n; i += L)
        sum += static_cast<double>(simd::sum<float>(simd::exp<float>(simd::load(x + i) - largest)));
    for (; i < n; ++i) sum += std::exp(static_cast<double>(x[i]) - static_cast<double>(largest));
    return static_cast<double>(largest) + std::log(sum);
}

Index likeliest(const float* logits, Index n) {
    Index best = 0;
    for (Index i = 0; i < n; ++i) {
        if (std::isnan(logits[i])) fail("logits: NaN for token ", i, ", expected numbers");
        if (logits[i] > logits[best]) best = i;
    }
    return best;
}

void check(const GenerateOptions& o) {
    if (o.tokens < 0) fail("tokens: ", o.tokens, ", expected 0 or more");
    if (!(o.temperature >= 0 && std::isfinite(o.temperature)))
        fail("temperature: ", number_text(o.temperature), ", expected a number from 0");
    if (o.top_k < 0) fail("top_k: ", o.top_k, ", expected 0 (all) or more");
    if (!(o.top_p > 0 && o.top_p <= 1))
        fail("top_p: ", number_text(o.top_p), ", expected a number above 0 and up to 1");
}

Index sample(const float* logits, Index n, const GenerateOptions& o, double u) {
    const Index best = likeliest(logits, n);
    if (o.temperature == 0 || o.top_k == 1) return best;
    std::vector<Index> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), Index(0));
    const Index kept = o.top_k > 0 ? std::min(o.top_k, n) : n;
    // Equal logits in the order of their tokens, so that the choice is one of numbers alone.
    std::partial_sort(order.begin(), order.begin() + kept, order.end(),
                      [&](Index a, Index b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); });
    std::vector<double> sums;  // of probabilities, not yet divided by their sum
    for (Index i = 0; i < kept; ++i) {
        const double below =
            static_cast<double>(logits[order[static_cast<std::size_t>(i)]]) - static_cast<double>(logits[best]);
        sums.push_back((i > 0 ? sums.back() : 0) + (below == 0 ? 1 : std::exp(below / o.temperature)));
    }
    const auto reaches = [&](double share) { return std::lower_bound(sums.begin(), sums.end(), share); };
    const auto last = o.top_p < 1 ? reaches(o.top_p * sums.back()) : sums.end() - 1;
    const auto chosen = std::upper_bound(sums.begin(), last, u * *last);
    return order[static_cast<std::size_t>(chosen - sums.begin())];
}

}  // namespace causeway::model
