#include "gpu/exact/lightning.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "gpu/base/device.hpp"
#include "gpu/base/error.hpp"
#include "gpu/base/tensor_map.hpp"
#include "gpu/exact/lightning_plan.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;
using la::Plan;

// A weight below 2^-reach_bits is not seen beside 1 by a Float32 sum.
constexpr double reach_bits = 24;
constexpr int most_summed = 8;  // states that a stretch sums itself where it starts
// Costs in units of one multiprocessor's share of the time to read q, k, v and write o of a chunk at full bandwidth: k and v
// alone, a launch, and what a multiprocessor needs at least for its half of a chunk, and to take in k and v.
constexpr double half = 0.5, launch_cost = 1.5, chunk_cost = 0.45, replay_cost = 0.28;

// Chunks back after which γ^distance < 2^-reach_bits; `chunks` when that is never.
int reach_of(double gamma, int64_t chunks) {
    const double tokens = gamma < 1 ? std::ceil(reach_bits / -std::log2(gamma)) : INFINITY;
    return static_cast<int>(std::min<double>(static_cast<double>(chunks), std::ceil(tokens / la::chunk)));
}

// Blocks to a stretch: each has 64 columns of v.
int cluster_of(const CausalArgs& a) { return a.d > 64 ? 2 : 1; }

struct Planner {
    const CausalArgs& a;
    int64_t chunks, total;
    int multiprocessors, cluster;
    std::vector<la::Head> head;

    explicit Planner(const CausalArgs& args)
        : a(args), chunks((a.N + la::chunk - 1) / la::chunk), total(a.B * a.H * chunks), multiprocessors(device().multiprocessors), cluster(cluster_of(args)) {}

    // A head whose decay reaches further back than `longest_replay` chunks gets its states from memory.
    void set_reach(int64_t longest_replay) {
        head.clear();
        for (int64_t h = 0; h < a.H; ++h) {
            const int reach = reach_of(a.decay_of(h), chunks);
            head.push_back({static_cast<float>(std::log2(a.decay_of(h))), reach > longest_replay ? la::from_memory : reach});
        }
    }
    int reach_at(int64_t pos) const { return head[static_cast<std::size_t>(pos / chunks % a.H)].reach; }
    int64_t replayed_at(int64_t pos) const {
        const int64_t first = pos % chunks;
        const int reach = first == 0 ? 0 : reach_at(pos);
        return reach == la::from_memory ? 0 : std::min<int64_t>(first, reach);
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
            slowest = std::max(slowest, chunk_cost * static_cast<double>(n) + replay_cost * static_cast<double>(back));
            if (end == from || reach_at(end) != la::from_memory) continue;
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
        const int64_t lines = a.B * a.H, most = std::min<int64_t>(total, la::most_stretches);
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

// The last plan of this thread is kept: a model calls with one shape again and again.
const Plan& remembered_plan(const CausalArgs& a) {
    struct Key {
        int64_t B, H, N;
        Type type;
        int r, d, stretches, multiprocessors;
        std::vector<double> gamma;
        bool operator==(const Key&) const = default;
    };
    static thread_local Key last;
    static thread_local Plan kept;
    Key key{a.B, a.H, a.N, a.type, a.r, a.d, a.stretches, device().multiprocessors, {}};
    if (a.gamma) key.gamma.assign(a.gamma, a.gamma + a.H);
    if (!(key == last)) {
        kept = Planner(a).best();
        last = std::move(key);
    }
    return kept;
}

void check_args(const CausalArgs& a) {
    if (a.B < 0 || a.H < 0 || a.N < 0) fail("lightning_attention_2: B, H, N are ", a.B, ", ", a.H, ", ", a.N, ", expected none below 0");
    if (a.r < 1 || a.d < 1) fail("lightning_attention_2: r and d are ", a.r, " and ", a.d, ", expected at least 1");
    for (int64_t h = 0; h < a.H; ++h) {
        if (!(a.decay_of(h) > 0 && a.decay_of(h) <= 1)) fail("decay: ", a.decay_of(h), ", expected a number in (0, 1]");
    }
    if (a.r > la::portable_most || a.d > la::portable_most) fail("lightning_attention_2: r and d are ", a.r, " and ", a.d, ", expected at most ", la::portable_most);
    if (a.H > la::most_heads) fail("lightning_attention_2: ", a.H, " heads, expected at most ", la::most_heads);
    if (a.B * a.H * ((a.N + la::chunk - 1) / la::chunk) >= int64_t{1} << 32) fail("lightning_attention_2: more than 2^38 tokens in all heads");
}

bool tensor_cores_reach(const CausalArgs& a) {
    return a.r <= 128 && a.d <= 128 && a.H <= la::most_heads && device().hopper() && copy_engine_reaches(a.q, a.type, a.q_stride) &&
           copy_engine_reaches(a.k, a.type, a.k_stride) && copy_engine_reaches(a.v, a.type, a.v_stride) && copy_engine_reaches(a.o, a.type, a.o_stride);
}

std::size_t workspace(const CausalArgs& a, const Plan& p) {
    const auto padded = [](int n) { return static_cast<std::size_t>(n <= 64 ? 64 : 128); };
    return static_cast<std::size_t>(p.stretches) * static_cast<std::size_t>(p.parts) * padded(a.r) * padded(a.d) * sizeof(float);
}

}  // namespace

std::size_t lightning_workspace(const CausalArgs& a) {
    check_args(a);
    if (a.B == 0 || a.H == 0 || a.N == 0 || !tensor_cores_reach(a)) return 0;
    return workspace(a, remembered_plan(a));
}

void lightning_attention_2(const CausalArgs& a, cudaStream_t stream) {
    check_args(a);
    if (a.B == 0 || a.H == 0 || a.N == 0) return;
    if (!tensor_cores_reach(a)) return la::run_portable(a, stream);
    const Plan& p = remembered_plan(a);
    if (const std::size_t need = workspace(a, p); need > a.workspace.bytes) {
        fail("lightning_attention_2: a workspace of ", a.workspace.bytes, " bytes, expected ", need);
    }
    la::run_hopper(a, p, stream);
}

}  // namespace causeway::gpu
