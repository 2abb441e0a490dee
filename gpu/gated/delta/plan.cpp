#include "gpu/gated/delta/plan.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "gpu/base/device.hpp"
#include "gpu/kit/carve.hpp"

namespace causeway::gpu::gated_delta {

namespace {

using std::int64_t;

// In units of the time of one chunk with outputs of 128 columns, 2.65 µs (docs/kernels/delta.md): a chunk without them,
// what a thread block needs to start, a guess of how many chunks gates reach back, and what the launches for maps take
// besides.
constexpr double replay_cost = 0.7, start_cost = 3, expected_reach = 4, launch_cost = 8;
// Which heads forget is known on the device alone: how likely it is that all do.
constexpr double all_forget = 0.75;
constexpr int max_finer = 4;
// A sequence of so many chunks is one split. Few heads of one such call would gain up to 25 µs by more, which packed
// sequences pay for again and again: eight of 1024 tokens with 32 heads took 0.25 ms, and take 0.12.
constexpr int64_t undivided = 16;

// A group of packed sequences ends before its workspace has more bytes, or its launches more thread blocks.
constexpr std::size_t most_bytes = std::size_t{1} << 28;
constexpr int64_t most_blocks = int64_t{1} << 30;

int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }

// Where 128 columns are two thread blocks, which takes turns away from the tensor cores and work from the chain of a
// chunk: what it takes then, with half of the device and with all of it.
constexpr double halved_cost = 0.79, halved_full_cost = 0.88;

// What a wave of so many thread blocks takes for a chunk, in those units.
double chunk_cost(const Blocks& p, int64_t blocks, int at_once) {
    if (!p.halved) return 1;
    return 2 * blocks <= at_once ? halved_cost : halved_full_cost;
}

// What a step of the scan over the states of one sequence takes, in those units.
double scan_cost(const GatedArgs& a, const Blocks& p, int at_once) {
    const int columns = scan_columns(p.state_heads, a.dv, p.rows, at_once);
    const double each = columns == 8 ? 0.8 : columns == 16 ? 1.1 : 1.8;
    return each * static_cast<double>(ceil_div(p.state_heads * ceil_div(a.dv, columns), at_once));
}

// How long the maps of all parts and their scan take, in those units; `length`: chunks of a part, steps: of the scan,
// each of which needs an A.
double time_of_maps(const Blocks& p, double length, int64_t parts, int64_t steps, double step, int at_once) {
    const int64_t blocks = p.state_heads * (parts * p.column_blocks + steps * p.identity_blocks);
    return launch_cost +
           chunk_cost(p, blocks, at_once) * static_cast<double>(ceil_div(blocks, at_once)) *
               (replay_cost * length + start_cost) +
           static_cast<double>(steps) * step;
}

// halved: with two thread blocks for 128 columns.
Blocks blocks_of(const GatedArgs& a, bool halved = false) {
    Blocks p;
    p.halved = halved;
    p.columns = a.dv <= 64 || halved ? 64 : 128;
    p.column_blocks = ceil_div(a.dv, p.columns);
    p.state_heads = a.B * a.H;
    p.batch_heads = p.state_heads * a.group;
    p.rows = a.dk <= 64 ? 64 : 128;
    if (a.beta) p.identity_blocks = ceil_div(p.rows, p.columns);
    return p;
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
    const double step = scan_cost(a, p, at_once);
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

// Whether 128 columns may be two thread blocks. What it takes is known for the delta rule alone.
bool may_be_halved(const GatedArgs& a) { return a.beta && a.dv > 64; }

// How a call on one sequence of n chunks is cut, and into which blocks.
struct Choice {
    Cut cut;
    bool halved = false;
};
Choice choice_of(const GatedArgs& a, int64_t n) {
    const TimedCut whole = timed_cut_of(a, blocks_of(a), n);
    if (!may_be_halved(a)) return {whole.cut};
    const TimedCut halved = timed_cut_of(a, blocks_of(a, true), n);
    if (halved.time < 0.98 * whole.time) return {halved.cut, true};
    return {whole.cut};
}
// fixed: into splits at fixed places.
Cut cut_of(const GatedArgs& a, int64_t n, bool fixed) {
    if (fixed) return {static_cast<int>(ceil_div(n, fixed_chunks)), 1};
    return choice_of(a, n).cut;
}

// In steps: all but the last split are parts, or where the state goes on, that too.
Cut steps_cut_of(const GatedArgs& a, const Blocks& p, int64_t n, bool goes_on) {
    const int64_t blocks = p.batch_heads * p.column_blocks;
    const int at_once = device().multiprocessors;
    const double step = scan_cost(a, p, at_once);
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

// Appends a sequence's walks over its splits, its walks over the parts whose maps are made, and the sequence itself if
// it is cut.
struct Walks {
    std::vector<Walk> outputs, leads, parts, cut;

    void add(Walk walk, const Cut& c) {
        const std::uint32_t first = c.lead > 0 ? 1 : 0;
        walk.splits = static_cast<std::uint32_t>(c.splits), walk.finer = static_cast<std::uint32_t>(c.finer);
        walk.lead = c.lead;
        walk.index = 0;
        if (c.lead > 0) leads.push_back(walk);
        for (walk.index = first; walk.index < walk.splits; ++walk.index) outputs.push_back(walk);
        for (walk.index = first; walk.index < static_cast<std::uint32_t>(c.parts()); ++walk.index)
            parts.push_back(walk);
        if (c.splits > 1) cut.push_back(walk);
    }
    // All of them, those that take longest first where there are outputs.
    std::vector<Walk> list() {
        const auto chunks = [](const Walk& w) { return (w.tokens + chunk - 1) / chunk / w.splits; };
        const auto longer = [&](const Walk& a, const Walk& b) { return chunks(a) > chunks(b); };
        std::vector<Walk> all;
        for (std::vector<Walk>* const of : {&outputs, &leads}) {
            if (!std::is_sorted(of->begin(), of->end(), longer)) std::stable_sort(of->begin(), of->end(), longer);
        }
        for (const std::vector<Walk>* const of : {&outputs, &leads, &parts, &cut})
            all.insert(all.end(), of->begin(), of->end());
        return all;
    }
};

// Walks that are launched together, in chunks: how many there are, how long all of them and the longest take.
struct Load {
    int64_t walks = 0;
    double all = 0, longest = 0;

    void add(int64_t n, double length) {
        walks += n, all += static_cast<double>(n) * length, longest = std::max(longest, length);
    }
    double time(const Blocks& p, int64_t blocks_of_walk, int at_once) const {
        if (walks == 0) return 0;
        const int64_t blocks = walks * blocks_of_walk;
        const double waves = static_cast<double>(ceil_div(blocks, at_once)) * all / static_cast<double>(walks);
        return chunk_cost(p, blocks, at_once) * std::max(longest, waves);
    }
};

// Of packed sequences, which are cut as they are: the blocks of less time. cut_of_chunks: the cut of so many chunks.
template <class F>
Blocks blocks_of_packed(const GatedArgs& a, const Sequences& sequences, F&& cut_of_chunks) {
    const Blocks whole = blocks_of(a);
    if (!may_be_halved(a)) return whole;
    Load outputs, maps;
    for (int64_t i = 0; i < sequences.count; ++i) {
        const int64_t chunks = ceil_div(sequences.offsets[i + 1] - sequences.offsets[i], chunk);
        if (chunks == 0) continue;
        const Cut cut = cut_of_chunks(chunks);
        const double length = static_cast<double>(ceil_div(chunks, cut.splits));
        outputs.add(cut.splits, length + start_cost);
        if (cut.splits > 1) maps.add(cut.parts(), replay_cost * length / cut.finer + start_cost);
    }
    const auto time = [&](const Blocks& p) {
        const int at_once = device().multiprocessors;
        return outputs.time(p, p.batch_heads * p.column_blocks, at_once) +
               (a.gates > 0 ? 1 - all_forget : 1) *
                   maps.time(p, p.state_heads * (p.column_blocks + p.identity_blocks), at_once);
    };
    const Blocks halved = blocks_of(a, true);
    return time(halved) < 0.98 * time(whole) ? halved : whole;
}

// Of n chunks.
void divide(Plan& p, int64_t n, const Cut& cut) {
    for (int i = 0; i <= cut.splits; ++i)
        p.bound.push_back(split_bound(static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(cut.splits),
                                      static_cast<std::uint32_t>(i), 0, cut.lead));
    p.finer = cut.finer, p.lead = cut.lead;
}

}  // namespace

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

PackedPlan packed_plan_of(const GatedArgs& a, const Sequences& sequences, bool fixed) {
    std::unordered_map<int64_t, Cut> cuts;  // by chunks: many sequences have the same number
    const auto cut_of_chunks = [&](int64_t chunks) {
        const auto found = cuts.find(chunks);
        return found != cuts.end() ? found->second : cuts.emplace(chunks, cut_of(a, chunks, fixed)).first->second;
    };
    PackedPlan p{blocks_of_packed(a, sequences, cut_of_chunks), {}};
    GatedArgs sizes = a;
    sizes.workspace = {};
    const int64_t blocks_of_walk = std::max(p.batch_heads * p.column_blocks,  // or more than it has
                                            p.state_heads * (p.column_blocks + p.identity_blocks));
    Group group;
    Walks walks;
    const auto close = [&] {
        if (group.outputs == 0) return;
        group.walks = walks.list();
        p.groups.push_back(std::move(group));
        walks = {};
    };
    for (int64_t i = 0; i < sequences.count; ++i) {
        const int64_t first = sequences.offsets[i], tokens = sequences.offsets[i + 1] - first;
        if (tokens == 0) continue;
        const Cut cut = cut_of_chunks(ceil_div(tokens, chunk));
        const auto grown = [&](const Group& from) {
            Group g;
            g.packed = true, g.each = fixed ? fixed_chunks : 0;
            g.first = from.outputs > 0 ? from.first : i, g.sequences = i + 1 - g.first;
            g.outputs = from.outputs + cut.splits, g.parts = from.parts + cut.parts();
            g.cut = from.cut + (cut.splits > 1 ? 1 : 0), g.leads = from.leads + (cut.lead > 0 ? 1 : 0);
            return g;
        };
        Group next = grown(group);
        if (group.outputs > 0 && (scratch_of(sizes, p, next).bytes > most_bytes ||
                                  std::max(next.outputs, next.parts) * blocks_of_walk > most_blocks)) {
            close();
            group = {};
            next = grown(group);
        }
        const auto u = [](int64_t x) { return static_cast<std::uint32_t>(x); };
        walks.add({.first = u(first),
                   .tokens = u(tokens),
                   .sequence = u(i - next.first),
                   .first_part = u(group.parts),
                   .cut = u(group.cut)},
                  cut);
        group = std::move(next);
    }
    close();
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
        if (a.gates > 0 && group.each > 0)
            s.starts = static_cast<int*>(carve.bytes(static_cast<std::size_t>(group.parts * p.state_heads) * 4));
    }
    if (group.packed) {
        const int64_t walks = group.outputs + group.maps() + group.cut;
        s.walks = static_cast<Walk*>(carve.bytes(static_cast<std::size_t>(walks) * sizeof(Walk)));
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
