#include "gpu/gated/delta/plan.hpp"

#include <algorithm>
#include <cmath>

#include "gpu/base/device.hpp"

namespace causeway::gpu::gated_delta {

namespace {

using std::int64_t;

// Measured, in units of the time of one chunk: a chunk without outputs; what a thread block needs to start. And a
// guess: how many chunks gates are expected to reach back.
constexpr double replay_cost = 0.6, start_cost = 3, expected_reach = 4;

int64_t blocks_of(const GatedArgs& a) { return (a.N + chunk - 1) / chunk; }

// Ends of P splits of n chunks that take equal time when each but the first walks over everything before it.
std::vector<std::uint32_t> shrinking(int64_t n, int P) {
    std::vector<std::uint32_t> bound{0};
    const double left = 1 - replay_cost, all = (1 - std::pow(left, P)) / replay_cost;
    for (int i = 1; i <= P; ++i) {
        const auto at = static_cast<std::uint32_t>(
            std::lround(static_cast<double>(n) * (1 - std::pow(left, i)) / replay_cost / all));
        if (at > bound.back()) bound.push_back(at);
    }
    return bound;
}

std::vector<std::uint32_t> even(int64_t n, int P) {
    std::vector<std::uint32_t> bound;
    for (int i = 0; i <= P; ++i) bound.push_back(static_cast<std::uint32_t>(n * i / P));
    return bound;
}

}  // namespace

Plan plan_of(const GatedArgs& a) {
    Plan p;
    p.columns = a.dv <= 64 ? 64 : 128;
    p.column_blocks = (a.dv + p.columns - 1) / p.columns;
    p.batch_heads = a.B * a.H * a.group;
    const int64_t n = blocks_of(a), blocks = p.batch_heads * p.column_blocks, at_once = device().multiprocessors;
    const bool gated = a.gates > 0;
    double best = INFINITY;
    for (int P = 1; P <= std::min<int64_t>(n, max_splits) && (P == 1 || blocks * P <= 4 * at_once); ++P) {
        const auto waves = static_cast<double>((blocks * P + at_once - 1) / at_once);
        auto bound = gated ? even(n, P) : shrinking(n, P);
        const double longest =
            gated ? static_cast<double>((n + P - 1) / P) + (P > 1 ? expected_reach * replay_cost : 0) : bound[1];
        const double time = waves * (longest + start_cost);
        if (time < 0.999 * best) best = time, p.bound = std::move(bound);
    }
    return p;
}

}  // namespace causeway::gpu::gated_delta
