// How packed sequences are cut: each as a call on it alone, at fixed places, or all of them together.
#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

#include "gpu/base/device.hpp"
#include "gpu/gated/delta/costs.hpp"
#include "gpu/kit/recent.hpp"

namespace causeway::gpu::gated_delta {

namespace {

using std::int64_t;

// A group of packed sequences ends before its workspace has more bytes, or its launches more thread blocks.
constexpr std::size_t most_bytes = std::size_t{1} << 28;
constexpr int64_t most_blocks = int64_t{1} << 30;

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

// Thread blocks that all take so long.
struct Lot {
    double each;
    int64_t blocks;
};

// When the last of them ends, the longest being taken first, each as soon as one of `at_once` places is free.
double makespan(std::vector<Lot> lots, int at_once) {
    std::sort(lots.begin(), lots.end(), [](const Lot& a, const Lot& b) { return a.each > b.each; });
    std::map<double, int64_t> free{{0, at_once}};  // how many places are free from when on
    double end = 0;
    for (auto [each, blocks] : lots) {
        // Where no place becomes free much later than another, every place has one of them in each round.
        const bool together = free.rbegin()->first - free.begin()->first <= each;
        const int64_t rounds = std::max<int64_t>(blocks / at_once - 1, 0);
        if (together && rounds > 0) {
            std::map<double, int64_t> later;
            for (const auto& [time, places] : free) later[time + static_cast<double>(rounds) * each] += places;
            free = std::move(later), blocks -= rounds * at_once;
        }
        while (blocks > 0) {
            const auto [time, places] = *free.begin();
            const int64_t taken = std::min(blocks, places);
            free.erase(free.begin());
            if (places > taken) free[time] = places - taken;
            free[time + each] += taken, blocks -= taken;
        }
        end = std::max(end, free.rbegin()->first);
    }
    return end;
}

// All packed sequences as one load: into splits of at most so many chunks, each into so many parts.
struct Together {
    int64_t length = 0;
    int finer = 1;
    bool halved = false;

    Cut cut_of(int64_t chunks) const {
        const auto splits = static_cast<int>(ceil_div(chunks, length));
        return {splits, splits > 1 ? static_cast<int>(std::min<int64_t>(finer, chunks / splits)) : 1};
    }
};

// The share of heads that are thought not to forget, as in FlashQLA's benchmark, of whose packed rows most then take up
// to 16 % more than is thought (docs/kernels/delta.md).
constexpr double kept_heads = 0.25;

// How long a call takes that is cut so, in the units of costs.hpp. sequences: by chunks, how many.
double time_of(const GatedArgs& a, const Together& t, const std::map<int64_t, int64_t>& sequences) {
    const Blocks p = blocks_of(a, t.halved);
    const int at_once = device().multiprocessors;
    const double share = a.gates > 0 ? kept_heads : 1;  // of heads, of which maps are made
    std::vector<Lot> outputs, maps;
    int64_t output_blocks = 0, map_blocks = 0, cut = 0, steps = 0;
    for (const auto& [chunks, count] : sequences) {
        const Cut c = t.cut_of(chunks);
        const auto length = static_cast<double>(ceil_div(chunks, c.splits));
        const double warm_up = c.splits > 1 && a.gates > 0 ? (1 - kept_heads) * expected_reach * replay_cost : 0;
        outputs.push_back({length + start_cost + warm_up, count * c.splits * p.batch_heads * p.column_blocks});
        output_blocks += outputs.back().blocks;
        if (c.splits == 1) continue;
        const int64_t with_A = c.parts() - 1, states = std::max(std::llround(share * p.state_heads), 1ll);
        maps.push_back({replay_cost * length / c.finer + start_cost,
                        count * states * (c.parts() * p.column_blocks + with_A * p.identity_blocks)});
        map_blocks += maps.back().blocks, cut += count, steps = std::max(steps, with_A);
    }
    const double time = chunk_cost(p, output_blocks, at_once) * makespan(std::move(outputs), at_once);
    if (cut == 0) return time;
    return time + launch_cost + chunk_cost(p, map_blocks, at_once) * makespan(std::move(maps), at_once) +
           static_cast<double>(steps) * scan_cost(a, p, cut * p.state_heads, at_once);
}

// The best. A split of the longest sequence is tried as one, a half, a third ... of it, then in steps of an eighth,
// until there are four waves of thread blocks.
Together best_together(const GatedArgs& a, const Sequences& sequences) {
    std::map<int64_t, int64_t> by_chunks;
    for (int64_t i = 0; i < sequences.count; ++i) {
        const int64_t chunks = ceil_div(sequences.offsets[i + 1] - sequences.offsets[i], chunk);
        if (chunks > 0) ++by_chunks[chunks];
    }
    if (by_chunks.empty()) return {1};
    const int64_t longest = by_chunks.rbegin()->first;
    const Blocks whole = blocks_of(a);
    Together best;
    double least = INFINITY;
    for (int64_t k = 1; k <= std::min<int64_t>(longest, max_splits); k += std::max<int64_t>(1, k / 8)) {
        const int64_t length = ceil_div(longest, k);
        int64_t walks = 0;
        for (const auto& [chunks, count] : by_chunks) walks += count * ceil_div(chunks, length);
        if (k > 1 && walks * whole.batch_heads * whole.column_blocks > 4 * device().multiprocessors) break;
        for (int finer = 1; finer <= (k > 1 && a.gates == 0 ? max_finer : 1); ++finer) {
            for (const bool halved : {false, true}) {
                if (halved && !may_be_halved(a)) continue;
                const Together t{length, finer, halved};
                const double time = time_of(a, t, by_chunks);
                if (time < (halved ? 0.98 : 0.999) * least) best = t, least = time;
            }
        }
    }
    return best;
}

// The same, of the calls that a thread made last.
const Together& together_of(const GatedArgs& a, const Sequences& sequences) {
    struct Key {
        int64_t B, H;
        int group, dk, dv, gates;
        bool delta;
        int multiprocessors;
        std::vector<int64_t> offsets;
        bool operator==(const Key&) const = default;
    };
    static thread_local Recent<Key, Together, 16> kept;
    Key key{a.B,
            a.H,
            a.group,
            a.dk,
            a.dv,
            a.gates,
            a.beta != nullptr,
            device().multiprocessors,
            {sequences.offsets, sequences.offsets + sequences.count + 1}};
    return kept.get(std::move(key), [&] { return best_together(a, sequences); });
}

}  // namespace

PackedPlan packed_plan_of(const GatedArgs& a, const Sequences& sequences, PackedCut how) {
    const bool fixed = how == PackedCut::fixed;
    const Together* const together = how == PackedCut::together ? &together_of(a, sequences) : nullptr;
    std::unordered_map<int64_t, Cut> cuts;  // by chunks: many sequences have the same number
    const auto cut_of_chunks = [&](int64_t chunks) {
        if (together) return together->cut_of(chunks);
        if (fixed) return Cut{static_cast<int>(ceil_div(chunks, fixed_chunks)), 1};
        const auto found = cuts.find(chunks);
        return found != cuts.end() ? found->second : cuts.emplace(chunks, choice_of(a, chunks).cut).first->second;
    };
    PackedPlan p{together ? blocks_of(a, together->halved) : blocks_of_packed(a, sequences, cut_of_chunks), {}};
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
            g.packed = true, g.each = fixed ? fixed_chunks : 0, g.by_split = how != PackedCut::alone;
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

}  // namespace causeway::gpu::gated_delta
