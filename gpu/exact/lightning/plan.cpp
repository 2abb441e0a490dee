#include "gpu/exact/lightning/plan.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gpu/base/device.hpp"
#include "gpu/kit/limits.hpp"
#include "gpu/kit/recent.hpp"

namespace causeway::gpu::la {

namespace {

using std::int64_t;

constexpr int max_summed = 32;  // states that a split sums itself where it starts
// Costs in units of one multiprocessor's share of the time to read q, k, v and write o of a chunk at full bandwidth: k
// and v alone, a launch, and for a multiprocessor to take in k and v.
constexpr double half = 0.5, launch_cost = 1.5, replay_cost = 0.28;
// What a multiprocessor needs at least for its share of a chunk: the whole one, or half.
double chunk_cost(int cluster) { return cluster == 1 ? 0.82 : 0.45; }
// Float32: of a chunk with outputs, of one that is only followed; la_scan, with its launch.
constexpr double bf16x3_chunk = 1.17, bf16x3_replay = 0.45, bf16x3_scan = 6;

// Chunks back after which γ^distance < 2^-24; `chunks` when that is never.
int reach_of(double gamma, int64_t chunks) {
    const double tokens = gamma < 1 ? std::ceil(limits::unseen_weight_bits / -std::log2(gamma)) : INFINITY;
    return static_cast<int>(std::min<double>(static_cast<double>(chunks), std::ceil(tokens / chunk)));
}

// Blocks to a split: each has 64 columns of v, in Float32 all of them.
int cluster_of(const CausalArgs& a) { return a.type == Type::Float32 ? 1 : padded(a.d) / 64; }

// Plans one of the problems on its share of the multiprocessors: the others are cut alike, so that those that read the
// same tensors in the same direction do it at the same time.
struct Planner {
    const CausalArgs& a;
    int64_t chunks, total;
    int problems, multiprocessors, cluster;
    double unshared;  // of the bytes of twelve tensors: dK and dV, two of three problems, read Q and dO together
    bool bf16x3;      // Float32
    bool in_steps;
    std::vector<Head> head;

    explicit Planner(const Call& call)
        : a(call.any()),
          chunks((a.N + chunk - 1) / chunk),
          total(a.B * a.H * chunks),
          problems(call.count),
          multiprocessors(device().multiprocessors / problems),
          cluster(cluster_of(a)),
          unshared(problems == max_problems ? 10.0 / 12 : 1),
          bf16x3(a.type == Type::Float32),
          in_steps(call.in_steps) {}

    // A head whose decay reaches further back than `longest_replay` chunks gets its states from memory. False: all is
    // as it was.
    bool set_reach(int64_t longest_replay) {
        bool changed = head.empty();
        head.resize(static_cast<std::size_t>(a.H));
        for (int64_t h = 0; h < a.H; ++h) {
            const int reach = reach_of(a.decay_of(h), chunks), now = reach > longest_replay ? from_memory : reach;
            Head& x = head[static_cast<std::size_t>(h)];
            changed = changed || x.reach != now;
            x = {static_cast<float>(std::log2(a.decay_of(h))), now};
        }
        return changed;
    }
    int reach_at(int64_t pos) const { return head[static_cast<std::size_t>(pos / chunks % a.H)].reach; }
    int64_t replayed_at(int64_t pos) const {
        const int64_t first = pos % chunks;
        const int reach = first == 0 ? 0 : reach_at(pos);
        return reach == from_memory ? 0 : std::min<int64_t>(first, reach);
    }

    // Whether a split that starts there needs states from memory.
    bool waits(int64_t pos) const { return pos % chunks != 0 && reach_at(pos) == from_memory; }

    // Where every split has a batch-head's chunks at least, a batch-head is cut once at most, and what lies before the
    // cut is the first thing that its split does, what lies behind it the last.
    bool may_hand_on(int64_t G) const { return !bf16x3 && !in_steps && G > 1 && total >= G * chunks; }

    // All chunks in at most G splits that move the same number of bytes; in Float32, where bytes are not what limits,
    // of equal cost, if those that wait for states from memory could have made `delay` chunks meanwhile.
    std::vector<uint32_t> even(int G, double delay = 0) const {
        const double replay = bf16x3 ? bf16x3_replay / bf16x3_chunk : half;
        std::vector<uint32_t> bound;
        const auto fill = [&](int64_t max_chunks) {
            bound.assign(1, 0);
            int64_t pos = 0;
            for (int g = 0; g < G && pos < total; ++g) {
                const double before = waits(pos) ? delay : replay * static_cast<double>(replayed_at(pos));
                pos = std::min(total, pos + std::max<int64_t>(1, max_chunks - static_cast<int64_t>(before)));
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
    // P equal splits in every head, or whole heads, `heads` to a split.
    std::vector<uint32_t> by_head(int64_t P, int64_t heads) const {
        std::vector<uint32_t> bound{0};
        for (int64_t bh = 0; bh < a.B * a.H; bh += heads) {
            const int64_t from = bh * chunks, to = std::min(total, (bh + heads) * chunks);
            for (int64_t i = 1; i <= P; ++i) bound.push_back(static_cast<uint32_t>(from + (to - from) * i / P));
        }
        bound.erase(std::unique(bound.begin(), bound.end()), bound.end());
        return bound;
    }

    // Chunks of a split from whose state another one starts: tasks follow them.
    int64_t followed_of(int64_t from, int64_t to) const {
        return waits(to) ? to - std::max(from, to / chunks * chunks) : 0;
    }

    // The largest number of states that tasks of `each` chunks store before a split of the same batch-head.
    int64_t max_stored(const std::vector<uint32_t>& bound, int64_t each) const {
        int64_t pos = 0, head_now = -1, count = 0, max_count = 0;
        for (std::size_t g = 0; g + 1 < bound.size(); ++g) {
            const int64_t n = followed_of(bound[g], bound[g + 1]);
            if (n == 0) continue;
            if (bound[g + 1] / chunks != head_now) head_now = bound[g + 1] / chunks, count = 0;
            count += (pos + n - 1) / each - pos / each + 1;
            pos += n;
            max_count = std::max(max_count, count);
        }
        return max_count;
    }

    // Float32: a multiprocessor holds one block. Splits that wait for no state begin on those that the tasks do
    // not need; the others where tasks have ended.
    Plan estimate_bf16x3(std::vector<uint32_t> bound) const {
        Plan p;
        p.splits = static_cast<int>(bound.size()) - 1;
        double bytes = static_cast<double>(total), free_time = 0, waiting_time = 0;
        int64_t followed = 0;
        int free = 0;
        for (std::size_t g = 0; g + 1 < bound.size(); ++g) {
            const int64_t from = bound[g], to = bound[g + 1], back = replayed_at(from);
            const double cost =
                bf16x3_chunk * static_cast<double>(to - from) + bf16x3_replay * static_cast<double>(back);
            bytes += half * static_cast<double>(back);
            followed += followed_of(from, to);
            if (waits(from)) {
                waiting_time = std::max(waiting_time, cost);
            } else {
                free_time = std::max(free_time, cost);
                ++free;
            }
        }
        bytes += half * static_cast<double>(followed);
        p.time = std::max(bytes / multiprocessors, free_time);
        if (followed > 0) p.time = INFINITY;
        for (const int tasks : {multiprocessors - free, multiprocessors}) {
            if (followed == 0 || tasks < 1) continue;
            const int beside = std::min(free, multiprocessors - tasks);
            const int64_t each = (followed + tasks - 1) / tasks;
            // Outputs beside the tasks take bandwidth from them.
            const double share = multiprocessors - beside / bf16x3_chunk;
            const double pass = launch_cost + std::max(half * static_cast<double>(followed) / share,
                                                       bf16x3_replay * static_cast<double>(each));
            const bool scan = max_stored(bound, each) > max_summed;
            double time = pass + waiting_time;
            if (scan || free > beside) time = pass + std::max(waiting_time, free_time);
            else time = std::max(time, free_time);
            time = std::max(bytes / multiprocessors, scan ? time + bf16x3_scan : time);
            if (time < p.time) {
                p.time = time, p.scan = scan;
                p.tasks = static_cast<int>((followed + each - 1) / each);
            }
        }
        p.bound = std::move(bound);
        p.head = head;
        return p;
    }

    // handed: each split hands its state on.
    Plan estimate(std::vector<uint32_t> bound, bool handed) const {
        Plan p;
        p.splits = static_cast<int>(bound.size()) - 1;
        p.handed = handed;
        double bytes = static_cast<double>(total), slowest = 0;
        int storing = 0, in_head = 0, max_in_head = 0;
        int64_t followed = 0, longest = 0;
        for (std::size_t g = 0; g + 1 < bound.size(); ++g) {
            const int64_t end = bound[g + 1], n = end - bound[g], back = replayed_at(bound[g]),
                          from = end / chunks * chunks;
            bytes += half * static_cast<double>(back);
            slowest = std::max(slowest,
                               chunk_cost(cluster) * static_cast<double>(n) + replay_cost * static_cast<double>(back));
            if (end == from || reach_at(end) != from_memory) continue;
            ++storing;
            in_head = bound[g] > from ? in_head + 1 : 1;
            max_in_head = std::max(max_in_head, in_head);
            const int64_t piece = end - std::max<int64_t>(from, bound[g]);
            followed += piece;
            longest = std::max(longest, piece);
        }
        p.time = std::max(unshared * bytes / multiprocessors, slowest);
        if (handed) {
            p.time += launch_cost;  // of clearing what says that a state is there
        } else if (storing > 0) {
            p.parts =
                static_cast<int>(std::clamp<int64_t>(multiprocessors / storing, 1, std::min<int64_t>(longest, 4)));
            p.scan = p.parts * max_in_head > max_summed;
            p.time += launch_cost * (p.scan ? 2 : 1) +
                      std::max(unshared * half * static_cast<double>(followed) / multiprocessors,
                               replay_cost * static_cast<double>(longest) / p.parts);
        }
        p.bound = std::move(bound);
        p.head = head;
        return p;
    }

    // Lays out what the tasks follow, and the order of the splits.
    void lay_out(Plan& p) {
        if (!bf16x3) return;
        head = p.head;
        p.followed.assign(1, 0);
        for (int g = 0; g < p.splits; ++g) {
            const auto from = p.bound.begin() + g;
            const int64_t n = followed_of(from[0], from[1]);
            p.followed.push_back(p.followed.back() + static_cast<uint32_t>(n));
            p.order.push_back(static_cast<uint8_t>(g));
        }
        if (p.tasks == 0) return;
        const uint32_t all = p.followed.back(), tasks = static_cast<uint32_t>(p.tasks);
        p.task = (all + tasks - 1) / tasks;
        p.tasks = static_cast<int>((all + p.task - 1) / p.task);
        std::stable_partition(p.order.begin(), p.order.end(), [&](uint8_t g) { return !waits(p.bound[g]); });
    }

    // The quickest, as estimated, of: splits of equal work or along the heads; states replayed or, where the decay
    // reaches far, from memory; states handed on.
    Plan best() {
        Plan found;
        const auto offer = [&](std::vector<uint32_t> bound, bool handed = false) {
            Plan p = bf16x3 ? estimate_bf16x3(std::move(bound)) : estimate(std::move(bound), handed);
            if (found.splits == 0 || p.time < 0.995 * found.time) found = std::move(p);
        };
        const int64_t batch_heads = a.B * a.H, max_G = std::min<int64_t>(total, max_splits / problems);
        const int64_t G = std::clamp<int64_t>(a.splits > 0 ? a.splits : multiprocessors / cluster, 1, max_G),
                      each = (total + G - 1) / G;
        for (const int64_t longest : {chunks, bf16x3 ? each : each / 2, each / 2}) {
            if (!set_reach(longest)) continue;
            const bool some_wait =
                std::any_of(head.begin(), head.end(), [](const Head& h) { return h.reach == from_memory; });
            if (batch_heads > G && a.splits == 0) offer(by_head(1, (batch_heads + G - 1) / G));
            offer(even(static_cast<int>(G)));
            for (int i = 1; i <= 12 && bf16x3 && some_wait && a.splits == 0; ++i)
                offer(even(static_cast<int>(G), static_cast<double>(each * i) / 16));
            for (int64_t P = std::min(chunks, G / batch_heads); P > 1 && a.splits == 0; --P) offer(by_head(P, 1));
        }
        if (may_hand_on(G)) {
            set_reach(0);
            if (a.splits > 0) found = {};  // tests that ask for splits then see states handed on, whatever the time
            offer(even(static_cast<int>(G)), true);
        }
        return found;
    }
};

Plan repeated(Plan p, int times) {
    const uint32_t total = p.bound.back();
    for (int i = 1; i < times; ++i) {
        for (int g = 1; g <= p.splits; ++g)
            p.bound.push_back(static_cast<uint32_t>(i) * total + p.bound[static_cast<std::size_t>(g)]);
    }
    p.splits *= times;
    p.tasks *= times;
    return p;
}

}  // namespace

// A model calls with a few shapes again and again.
const Plan& plan(const Call& call) {
    const CausalArgs& a = call.any();
    struct Key {
        int64_t B, H, N;
        Type type;
        int d, splits, problems, multiprocessors;
        bool in_steps;
        std::vector<double> gamma;
        bool operator==(const Key&) const = default;
    };
    static thread_local Recent<Key, Plan, 64> kept;
    Key key{a.B, a.H, a.N, a.type, padded(a.d), a.splits, call.count, device().multiprocessors, call.in_steps, {}};
    if (a.gamma) key.gamma.assign(a.gamma, a.gamma + a.H);
    return kept.get(std::move(key), [&] {
        Planner planner(call);
        Plan p = repeated(planner.best(), call.count);
        planner.lay_out(p);
        return p;
    });
}

}  // namespace causeway::gpu::la
