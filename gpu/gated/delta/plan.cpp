#include "gpu/gated/delta/plan.hpp"

#include <algorithm>
#include <cmath>

#include "gpu/base/device.hpp"
#include "gpu/kit/carve.hpp"

namespace causeway::gpu::gated_delta {

namespace {

using std::int64_t;

// In units of the time of one chunk with outputs: a chunk without them (measured: 0.7 without gates and 0.9 with slow
// ones, docs/kernels/delta.md), what a thread block needs to start, a guess of how many chunks gates reach back, and a
// step of the scan.
constexpr double replay_cost = 0.7, start_cost = 3, expected_reach = 4, scan_cost = 0.8;
constexpr int max_finer = 4;

int64_t chunks_of(const GatedArgs& a) { return (a.N + chunk - 1) / chunk; }

int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }

std::vector<std::uint32_t> even(int64_t n, int splits) {
    std::vector<std::uint32_t> bound;
    for (int i = 0; i <= splits; ++i) bound.push_back(static_cast<std::uint32_t>(n * i / splits));
    return bound;
}

// How long the maps of all parts and their scan take, in those units.
double time_of_maps(const Plan& p, int64_t n, int splits, int finer, int64_t scan_blocks, int at_once) {
    const int64_t parts = int64_t{splits - 1} * finer,
                  blocks = p.state_heads * (parts * p.column_blocks + (parts - 1) * p.identity_blocks);
    const double length = static_cast<double>(ceil_div(n, splits)) / finer;
    return static_cast<double>(ceil_div(blocks, at_once)) * (replay_cost * length + start_cost) +
           static_cast<double>(ceil_div(scan_blocks, at_once) * (parts - 1)) * scan_cost;
}

}  // namespace

Plan plan_of(const GatedArgs& a) {
    Plan p;
    p.columns = a.dv <= 64 ? 64 : 128;
    p.column_blocks = ceil_div(a.dv, p.columns);
    p.state_heads = a.B * a.H;
    p.batch_heads = p.state_heads * a.group;
    p.rows = a.dk <= 64 ? 64 : 128;
    if (a.beta) p.identity_blocks = ceil_div(p.rows, p.columns);
    const int64_t n = chunks_of(a), blocks = p.batch_heads * p.column_blocks;
    const int at_once = device().multiprocessors;
    double best = INFINITY;
    int best_splits = 1;
    const auto consider = [&](int splits, int finer, double time) {
        if (time < 0.999 * best) best = time, best_splits = splits, p.finer = finer;  // more must gain at least 0.1 %
    };
    // At most four waves of blocks are tried.
    for (int splits = 1; splits <= std::min<int64_t>(n, max_splits) && (splits == 1 || blocks * splits <= 4 * at_once);
         ++splits) {
        const auto waves = static_cast<double>(ceil_div(blocks * splits, at_once));
        const double outputs = waves * (static_cast<double>(ceil_div(n, splits)) + start_cost);
        // Which heads forget is known on the device alone; most do.
        if (splits == 1 || a.gates > 0) {
            consider(splits, 1, outputs + (splits > 1 ? waves * expected_reach * replay_cost : 0));
            continue;
        }
        for (int finer = 1; finer <= std::min<int64_t>(max_finer, n / splits); ++finer)
            consider(
                splits, finer,
                outputs + time_of_maps(p, n, splits, finer, p.state_heads * ceil_div(a.dv, scan_columns), at_once));
    }
    p.bound = even(n, best_splits);
    return p;
}

Scratch scratch_of(const GatedArgs& a, const Plan& p) {
    Carve carve(a.workspace.data);
    Scratch s{};
    const int64_t parts = p.parts(), state = p.state_heads * a.dk * a.dv;
    if (a.state && (p.splits() > 1 || a.group > 1)) s.state = carve.floats(state);
    if (parts > 0) {
        s.B = carve.floats(parts * state);
        if (a.beta && parts > 1) s.A = carve.floats((parts - 1) * p.state_heads * a.dk * p.rows);
        if (a.gates > 0) s.transfers = static_cast<int*>(carve.bytes(static_cast<std::size_t>(p.state_heads) * 4));
    }
    const std::size_t used = carve.end() - reinterpret_cast<std::uintptr_t>(a.workspace.data);
    s.bytes = used > 0 ? used + Carve::slack : 0;
    return s;
}

}  // namespace causeway::gpu::gated_delta
