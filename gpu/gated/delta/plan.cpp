#include "gpu/gated/delta/plan.hpp"

#include <algorithm>
#include <cmath>

#include "gpu/base/device.hpp"
#include "gpu/gated/delta/costs.hpp"
#include "gpu/kit/carve.hpp"

namespace causeway::gpu::gated_delta {

namespace {

using std::int64_t;

// A sequence of so many chunks is one split. Few heads of one such call would gain up to 25 µs by more, which packed
// sequences pay for again and again: eight of 1024 tokens with 32 heads took 0.25 ms, and take 0.12.
constexpr int64_t undivided = 16;

// How long the maps of all parts and their scan take, in those units; `length`: chunks of a part, steps: of the scan,
// each of which needs an A.
double time_of_maps(const Blocks& p, double length, int64_t parts, int64_t steps, double step, int at_once) {
    const int64_t blocks = p.state_heads * (parts * p.column_blocks + steps * p.identity_blocks);
    return launch_cost +
           chunk_cost(p, blocks, at_once) * static_cast<double>(ceil_div(blocks, at_once)) *
               (replay_cost * length + start_cost) +
           static_cast<double>(steps) * step;
}

// f(cut, time) of cuts into so many splits of which the first leads, as long as the maps of all others but the last
// take, so that both end together. `step`: of the scan.
template <class F>
void consider_leads(const Blocks& p, int64_t n, int splits, double step, int at_once, F&& f) {
    const int64_t leads = p.batch_heads * p.column_blocks, others = splits - 1;
    if (splits < 3 || leads >= at_once || n < 4 * splits) return;
    const auto waves = static_cast<double>(ceil_div(leads * others, at_once));
    for (int finer = 1; finer <= max_finer; ++finer) {
        const int64_t maps = (others - 1) * finer,
                      blocks = p.state_heads * maps * (p.column_blocks + p.identity_blocks);
        const auto rounds = static_cast<double>(ceil_div(blocks, at_once - leads));
        // lead + start = rounds (replay (n - lead) / (others finer) + start)
        const double cost = chunk_cost(p, leads + blocks, at_once);
        const double each = rounds * replay_cost / static_cast<double>(others * finer),
                     exact = (each * static_cast<double>(n) + (rounds - 1) * start_cost) / (1 + each);
        const auto lead = std::clamp<int64_t>(std::llround(exact), 1, n - others * finer);
        const double length = static_cast<double>(ceil_div(n - lead, others)),
                     first = std::max(static_cast<double>(lead) + start_cost,
                                      rounds * (replay_cost * length / finer + start_cost));
        const double scan = static_cast<double>(maps) * step;
        f(Cut{splits, finer, static_cast<std::uint32_t>(lead)},
          launch_cost + cost * first + scan + chunk_cost(p, leads * others, at_once) * waves * (length + start_cost));
    }
}

// A cut, and the time that it is thought to take.
struct TimedCut {
    Cut cut;
    double time = INFINITY;
};

// The best of a sequence of n chunks, for these blocks.
TimedCut timed_cut_of(const GatedArgs& a, const Blocks& p, int64_t n) {
    const int64_t blocks = p.batch_heads * p.column_blocks;
    const int at_once = device().multiprocessors;
    const double step = scan_cost(a, p, p.state_heads, at_once);
    TimedCut best;
    const auto consider = [&](const Cut& c, double time) {
        if (time < 0.999 * best.time) best = {c, time};  // more must gain at least 0.1 %
    };
    // At most four waves of blocks are tried.
    const int64_t most = n <= undivided ? 1 : std::min<int64_t>(n, max_splits);
    for (int splits = 1; splits <= most && (splits == 1 || blocks * splits <= 4 * at_once); ++splits) {
        const auto waves = static_cast<double>(ceil_div(blocks * splits, at_once));
        const double cost = chunk_cost(p, blocks * splits, at_once),
                     outputs = cost * waves * (static_cast<double>(ceil_div(n, splits)) + start_cost);
        const auto maps = [&](int finer) {
            const int64_t parts = Cut{splits, finer}.parts();
            return time_of_maps(p, static_cast<double>(ceil_div(n, splits)) / finer, parts, parts - 1, step, at_once);
        };
        if (splits == 1) {
            consider({1, 1}, outputs);
        } else if (a.gates > 0) {
            consider({splits, 1},
                     outputs + all_forget * cost * waves * expected_reach * replay_cost + (1 - all_forget) * maps(1));
        } else {
            for (int finer = 1; finer <= std::min<int64_t>(max_finer, n / splits); ++finer)
                consider({splits, finer}, outputs + maps(finer));
            consider_leads(p, n, splits, step, at_once, consider);
        }
    }
    return best;
}

// In steps: all but the last split are parts, or where the state goes on, that too.
Cut steps_cut_of(const GatedArgs& a, const Blocks& p, int64_t n, bool goes_on) {
    const int64_t blocks = p.batch_heads * p.column_blocks;
    const int at_once = device().multiprocessors;
    const double step = scan_cost(a, p, p.state_heads, at_once);
    double best = INFINITY;
    Cut cut;
    for (int splits = 1;
         splits < std::min<int64_t>(n + 1, max_splits) && (splits == 1 || blocks * splits <= 4 * at_once); ++splits) {
        const double length = static_cast<double>(ceil_div(n, splits));
        for (int finer = 1; finer <= std::clamp<int64_t>(n / splits, 1, max_finer); ++finer) {
            const int64_t parts = int64_t{goes_on ? splits : splits - 1} * finer;
            const double outputs = static_cast<double>(ceil_div(blocks * splits, at_once)) * (length + start_cost),
                         maps = parts > 0 ? time_of_maps(p, length / finer, parts, parts, step, at_once) : 0;
            if (outputs + maps < 0.999 * best) best = outputs + maps, cut = {splits, finer};
        }
    }
    return cut;
}

// Of n chunks.
void divide(Plan& p, int64_t n, const Cut& cut) {
    for (int i = 0; i <= cut.splits; ++i)
        p.bound.push_back(split_bound(static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(cut.splits),
                                      static_cast<std::uint32_t>(i), 0, cut.lead));
    p.finer = cut.finer, p.lead = cut.lead;
}

}  // namespace

Choice choice_of(const GatedArgs& a, int64_t n) {
    const TimedCut whole = timed_cut_of(a, blocks_of(a), n);
    if (!may_be_halved(a)) return {whole.cut};
    const TimedCut halved = timed_cut_of(a, blocks_of(a, true), n);
    if (halved.time < 0.98 * whole.time) return {halved.cut, true};
    return {whole.cut};
}

Plan plan_of(const GatedArgs& a) {
    const int64_t n = ceil_div(a.N, chunk);
    const Choice choice = choice_of(a, n);
    Plan p{blocks_of(a, choice.halved), {}};
    divide(p, n, choice.cut);
    return p;
}

Plan steps_plan_of(const GatedArgs& a, bool goes_on) {
    Plan p{blocks_of(a), {}};
    p.in_steps = true, p.goes_on = goes_on;
    const int64_t n = ceil_div(a.N, chunk);
    divide(p, n, steps_cut_of(a, p, n, goes_on));
    if (goes_on) p.bound.push_back(p.bound.back());
    return p;
}

Scratch scratch_of(const GatedArgs& a, const Blocks& p, const Group& group) {
    Carve carve(a.workspace.data);
    Scratch s{};
    const int64_t state = p.state_heads * a.dk * a.dv;
    if (group.first_maps || (a.state && (group.cut > 0 || a.group > 1)))
        s.state = carve.floats(group.sequences * state);
    if (group.cut > 0) {
        s.B = carve.floats(group.parts * state);
        const int64_t maps = group.parts - (group.first_maps ? 0 : group.cut);
        if (a.beta && maps > 0) s.A = carve.floats(maps * p.state_heads * a.dk * p.rows);
        if (a.gates > 0 && !group.first_maps)
            s.transfers = static_cast<int*>(carve.bytes(static_cast<std::size_t>(group.cut * p.state_heads) * 4));
        if (a.gates > 0 && group.by_split)
            s.starts = static_cast<int*>(carve.bytes(static_cast<std::size_t>(group.parts * p.state_heads) * 4));
    }
    if (group.packed) {
        const auto walks = static_cast<std::size_t>(group.outputs + group.maps() + group.cut);
        if (walks > few_walks || p.columns == 64) s.walks = static_cast<Walk*>(carve.bytes(walks * sizeof(Walk)));
    }
    const std::size_t used = carve.end() - reinterpret_cast<std::uintptr_t>(a.workspace.data);
    s.bytes = used > 0 ? used + Carve::slack : 0;
    return s;
}

Group Plan::group() const {
    Group all;
    all.sequences = 1, all.outputs = with_outputs(), all.parts = Cut{splits(), finer, lead}.parts();
    all.cut = splits() > 1 ? 1 : 0, all.leads = lead > 0 ? 1 : 0, all.first_maps = in_steps;
    return all;
}

Scratch scratch_of(const GatedArgs& a, const Plan& p) { return scratch_of(a, p, p.group()); }

}  // namespace causeway::gpu::gated_delta
