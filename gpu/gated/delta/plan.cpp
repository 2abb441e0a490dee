#include "gpu/gated/delta/plan.hpp"

#include <algorithm>
#include <cmath>

#include "gpu/base/device.hpp"

namespace causeway::gpu::gated_delta {

namespace {

using std::int64_t;

// In units of the time of one chunk with outputs: an estimate of a chunk without them (measured since: 0.7 without
// gates and 0.9 with slow ones, docs/kernels/delta.md), what a thread block needs to start, and a guess of how many
// chunks gates reach back.
constexpr double replay_cost = 0.6, start_cost = 3, expected_reach = 4;

int64_t chunks_of(const GatedArgs& a) { return (a.N + chunk - 1) / chunk; }

// Bounds of `splits` splits of n chunks that take equal time if each of them first walks over all chunks before it, at
// replay_cost. Each is `left` times as long as the one before it, so bound i is n (1 - left^i) / (1 - left^splits).
std::vector<std::uint32_t> shrinking(int64_t n, int splits) {
    std::vector<std::uint32_t> bound{0};
    const double left = 1 - replay_cost, all = (1 - std::pow(left, splits)) / replay_cost;
    for (int i = 1; i <= splits; ++i) {
        const auto at = static_cast<std::uint32_t>(
            std::lround(static_cast<double>(n) * (1 - std::pow(left, i)) / replay_cost / all));
        if (at > bound.back()) bound.push_back(at);
    }
    return bound;
}

std::vector<std::uint32_t> even(int64_t n, int splits) {
    std::vector<std::uint32_t> bound;
    for (int i = 0; i <= splits; ++i) bound.push_back(static_cast<std::uint32_t>(n * i / splits));
    return bound;
}

}  // namespace

Plan plan_of(const GatedArgs& a) {
    Plan p;
    p.columns = a.dv <= 64 ? 64 : 128;
    p.column_blocks = (a.dv + p.columns - 1) / p.columns;
    p.batch_heads = a.B * a.H * a.group;
    const int64_t n = chunks_of(a), blocks = p.batch_heads * p.column_blocks, at_once = device().multiprocessors;
    const bool gated = a.gates > 0;
    double best = INFINITY;
    // At most four waves of blocks are tried. A longer list of splits must gain at least 0.1 %.
    for (int splits = 1; splits <= std::min<int64_t>(n, max_splits) && (splits == 1 || blocks * splits <= 4 * at_once);
         ++splits) {
        const auto waves = static_cast<double>((blocks * splits + at_once - 1) / at_once);
        auto bound = gated ? even(n, splits) : shrinking(n, splits);
        const double longest =
            gated ? static_cast<double>((n + splits - 1) / splits) + (splits > 1 ? expected_reach * replay_cost : 0)
                  : bound[1];
        const double time = waves * (longest + start_cost);
        if (time < 0.999 * best) best = time, p.bound = std::move(bound);
    }
    return p;
}

}  // namespace causeway::gpu::gated_delta
