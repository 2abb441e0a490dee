#include "gpu/exact/lightning_plan.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gpu/base/device.hpp"

namespace causeway::gpu::la {

namespace {

using std::int64_t;

// A weight below 2^-reach_bits is not seen beside 1 by a Float32 sum.
constexpr double reach_bits = 24;
constexpr int most_summed = 32;  // states that a stretch sums itself where it starts
// Costs in units of one multiprocessor's share of the time to read q, k, v and write o of a chunk at full bandwidth: k and v
// alone, a launch, and for a multiprocessor to take in k and v.
constexpr double half = 0.5, launch_cost = 1.5, replay_cost = 0.28;
// What a multiprocessor needs at least for its share of a chunk: the whole one, or half.
double chunk_cost(int cluster) { return cluster == 1 ? 0.82 : 0.45; }

// Chunks back after which γ^distance < 2^-reach_bits; `chunks` when that is never.
int reach_of(double gamma, int64_t chunks) {
    const double tokens = gamma < 1 ? std::ceil(reach_bits / -std::log2(gamma)) : INFINITY;
    return static_cast<int>(std::min<double>(static_cast<double>(chunks), std::ceil(tokens / chunk)));
}

// Blocks to a stretch: each has 64 columns of v.
int cluster_of(const CausalArgs& a) { return padded(a.d) / 64; }

// Plans one of the problems on its share of the multiprocessors: the others are cut alike, so that those that read the same
// tensors in the same direction do it at the same time.
struct Planner {
    const CausalArgs& a;
    int64_t chunks, total;
    int problems, multiprocessors, cluster;
    std::vector<Head> head;

    explicit Planner(const Call& call)
        : a(call.any()),
          chunks((a.N + chunk - 1) / chunk),
          total(a.B * a.H * chunks),
          problems(call.count),
          multiprocessors(device().multiprocessors / problems),
          cluster(cluster_of(a)) {}

    // A head whose decay reaches further back than `longest_replay` chunks gets its states from memory.
    void set_reach(int64_t longest_replay) {
        head.clear();
        for (int64_t h = 0; h < a.H; ++h) {
            const int reach = reach_of(a.decay_of(h), chunks);
            head.push_back({static_cast<float>(std::log2(a.decay_of(h))), reach > longest_replay ? from_memory : reach});
        }
    }
    int reach_at(int64_t pos) const { return head[static_cast<std::size_t>(pos / chunks % a.H)].reach; }
    int64_t replayed_at(int64_t pos) const {
        const int64_t first = pos % chunks;
        const int reach = first == 0 ? 0 : reach_at(pos);
        return reach == from_memory ? 0 : std::min<int64_t>(first, reach);
    }

    // The line in at most G stretches that move the same number of bytes.
    std::vector<uint32_t> even(int G) const {
        std::vector<uint32_t> bound;
        const auto fill = [&](int64_t bytes) {
            bound.assign(1, 0);
            int64_t pos = 0;
            for (int g = 0; g < G && pos < total; ++g) {
                pos = std::min(total, pos + std::max<int64_t>(1, bytes - static_cast<int64_t>(half * static_cast<double>(replayed_at(pos)))));
                bound.push_back(static_cast<uint32_t>(pos));
            }
            return pos == total;
        };
        int64_t low = (total - 1) / G, high = total;  // not enough, enough
        for (int64_t step = 1; low + step < high; step *= 2) {
            if (fill(low + step)) high = low + step;
            else low += step;
        }
        while (high - low > 1) {
            const int64_t mid = (low + high) / 2;
            (fill(mid) ? high : low) = mid;
        }
        fill(high);
        return bound;
    }
    // P equal stretches in every head, or whole heads, `heads` to a stretch.
    std::vector<uint32_t> by_head(int64_t P, int64_t heads) const {
        std::vector<uint32_t> bound{0};
        for (int64_t line = 0; line < a.B * a.H; line += heads) {
            const int64_t from = line * chunks, to = std::min(total, (line + heads) * chunks);
            for (int64_t i = 1; i <= P; ++i) bound.push_back(static_cast<uint32_t>(from + (to - from) * i / P));
        }
        bound.erase(std::unique(bound.begin(), bound.end()), bound.end());
        return bound;
    }

    Plan estimate(std::vector<uint32_t> bound) const {
        Plan p;
        p.stretches = static_cast<int>(bound.size()) - 1;
        double bytes = static_cast<double>(total), slowest = 0;
        int leaving = 0, in_head = 0, most_in_head = 0;
        int64_t left = 0, longest = 0;
        for (std::size_t g = 0; g + 1 < bound.size(); ++g) {
            const int64_t end = bound[g + 1], n = end - bound[g], back = replayed_at(bound[g]), from = end / chunks * chunks;
            bytes += half * static_cast<double>(back);
            slowest = std::max(slowest, chunk_cost(cluster) * static_cast<double>(n) + replay_cost * static_cast<double>(back));
            if (end == from || reach_at(end) != from_memory) continue;
            ++leaving;
            in_head = bound[g] > from ? in_head + 1 : 1;
            most_in_head = std::max(most_in_head, in_head);
            const int64_t piece = end - std::max<int64_t>(from, bound[g]);
            left += piece;
            longest = std::max(longest, piece);
        }
        p.time = std::max(bytes / multiprocessors, slowest);
        if (leaving > 0) {
            const int64_t at_once = a.type == Type::Float32 ? multiprocessors / cluster : multiprocessors;
            p.parts = static_cast<int>(std::clamp<int64_t>(at_once / leaving, 1, std::min<int64_t>(longest, 4)));
            p.scan = p.parts * most_in_head > most_summed;
            p.time += launch_cost * (p.scan ? 2 : 1) +
                      std::max(half * static_cast<double>(left) / multiprocessors, replay_cost * static_cast<double>(longest) / p.parts);
        }
        p.bound = std::move(bound);
        p.head = head;
        return p;
    }

    // The quickest, as estimated, of: stretches of equal work or along the heads; states replayed or, where the decay reaches far,
    // from memory.
    Plan best() {
        Plan found;
        const auto offer = [&](std::vector<uint32_t> bound) {
            Plan p = estimate(std::move(bound));
            if (found.stretches == 0 || p.time < 0.995 * found.time) found = std::move(p);
        };
        const int64_t lines = a.B * a.H, most = std::min<int64_t>(total, most_stretches / problems);
        const int64_t G = std::clamp<int64_t>(a.stretches > 0 ? a.stretches : multiprocessors / cluster, 1, most), each = (total + G - 1) / G;
        for (const int64_t longest : {chunks, each / 2}) {
            set_reach(longest);
            if (lines > G && a.stretches == 0) offer(by_head(1, (lines + G - 1) / G));
            offer(even(static_cast<int>(G)));
            for (int64_t P = std::min(chunks, G / lines); P > 1 && a.stretches == 0; --P) offer(by_head(P, 1));
        }
        return found;
    }
};

Plan repeated(Plan p, int times) {
    const uint32_t total = p.bound.back();
    for (int i = 1; i < times; ++i) {
        for (int g = 1; g <= p.stretches; ++g) p.bound.push_back(static_cast<uint32_t>(i) * total + p.bound[static_cast<std::size_t>(g)]);
    }
    p.stretches *= times;
    return p;
}

}  // namespace

// A model calls with a few shapes again and again.
const Plan& plan(const Call& call) {
    const CausalArgs& a = call.any();
    struct Key {
        int64_t B, H, N;
        Type type;
        int d, stretches, problems, multiprocessors;
        std::vector<double> gamma;
        bool operator==(const Key&) const = default;
    };
    struct Entry {
        Key key;
        Plan plan;
    };
    static thread_local std::array<Entry, 8> kept;
    static thread_local std::size_t oldest = 0;
    Key key{a.B, a.H, a.N, a.type, padded(a.d), a.stretches, call.count, device().multiprocessors, {}};
    if (a.gamma) key.gamma.assign(a.gamma, a.gamma + a.H);
    for (const Entry& e : kept) {
        if (e.plan.stretches > 0 && e.key == key) return e.plan;
    }
    Entry& e = kept[oldest];
    oldest = (oldest + 1) % kept.size();
    e.plan = repeated(Planner(call).best(), call.count);
    e.key = std::move(key);
    return e.plan;
}

}  // namespace causeway::gpu::la
