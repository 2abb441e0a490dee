#include "gpu/gated/channels.hpp"

#include <algorithm>

#include "gpu/base/device.hpp"
#include "gpu/base/error.hpp"
#include "gpu/gated/channels/round.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;

constexpr const char* name = "gated_channels";

// Where the tiles of a launch lie in the workspace: those of so many chunks of all heads.
struct Tiles {
    gated::Call call;
    std::size_t bytes = 0;
    std::size_t keys_at = 0, queries_at = 0, values_at = 0;
    bool copies_values;

    Tiles(const gated::Call& whole, int64_t chunks) : call(whole), copies_values(call.beta || !call.v.whole) {
        const int64_t tiles = call.all_heads * chunks, DK = channels::padded_rows(call.dk),
                      DV = channels::padded_columns(call.dv);
        keys_at = take(tiles * channels::KeyTiles(static_cast<int>(DK), call.beta != nullptr).bytes);
        queries_at = take(tiles * call.group * channels::QueryTiles(static_cast<int>(DK)).bytes);
        if (copies_values) values_at = take(tiles * (DV / channels::sweep_columns) * channels::value_bytes);
    }
    std::size_t take(int64_t n) {
        const std::size_t at = bytes;
        bytes += static_cast<std::size_t>((n + 255) / 256 * 256);
        return at;
    }
    // A part but for its tokens and states.
    channels::Part part(char* at) const {
        channels::Part p{};
        p.call = call;
        p.DK = channels::padded_rows(call.dk), p.DV = channels::padded_columns(call.dv);
        p.state_in_step = p.state_out_step = int64_t{call.dk} * call.dv;
        const auto tiles = [&](std::size_t where) { return reinterpret_cast<unsigned char*>(at + where); };
        p.keys = tiles(keys_at), p.queries = tiles(queries_at);
        if (copies_values) p.values = tiles(values_at);
        return p;
    }
};

constexpr int64_t all_tokens = 131072, min_tokens = 1024, C = channels::C;

// Tokens of a head between two launches.
int64_t part_tokens(const gated::Call& call) {
    return std::max(min_tokens, all_tokens / std::max<int64_t>(call.all_heads, 1) / C * C);
}

struct Plan {
    gated::Call call;
    int64_t each, parts;
    Tiles tiles;
    std::size_t state_at = 0;

    explicit Plan(const GatedArgs& a)
        : call(gated::call_of(a)),
          each(part_tokens(call)),
          parts((call.N + each - 1) / each),
          tiles(call, (std::min(each, call.N) + C - 1) / C) {
        if (parts > 1 && !call.state) state_at = tiles.take(call.all_heads * call.dk * call.dv * 4);
    }
    std::size_t bytes() const { return tiles.bytes; }
    channels::Part part(int64_t i, char* at, float* between) const {
        channels::Part p = tiles.part(at);
        p.first = i * each, p.tokens = std::min(each, call.N - p.first);
        p.chunks = static_cast<int>((p.tokens + C - 1) / C);
        p.state_in = i == 0 ? call.state : between;
        p.state_out = i + 1 < parts ? between : call.state;
        return p;
    }
    bool empty() const { return call.N == 0 || call.all_heads == 0; }
};

// Of packed sequences; parts are those of a call on each alone.
struct PackedPlan {
    gated::Call call;
    std::vector<gated::Round> rounds;
    Tiles tiles;
    std::size_t lists_at = 0;

    PackedPlan(const GatedArgs& a, const Sequences& sequences)
        : call(gated::call_of(a)),
          rounds(gated::rounds_of(sequences, part_tokens(call), channels::C,
                                  2 * all_tokens / C / std::max<int64_t>(call.all_heads, 1))),
          tiles(call, most([](const gated::Round& r) { return r.chunks(); })) {
        lists_at = tiles.take(most([](const gated::Round& r) { return static_cast<int64_t>(gated::bytes_of(r)); }));
    }
    std::size_t bytes() const { return tiles.bytes; }
    template <class F>
    int64_t most(F&& f) const {
        int64_t x = 0;
        for (const gated::Round& round : rounds) x = std::max(x, f(round));
        return x;
    }
};

}  // namespace

bool gated_channels_takes(const GatedArgs& a) {
    return a.type == Type::BFloat16 && a.gates == a.dk && a.dk > 1 && a.dk <= 128 && a.dv >= 1 && a.dv <= 128 &&
           device().hopper();
}

bool gated_channels_makes_gates(const GatedArgs& a) {
    return a.projection.type != Type::Float16 && a.gates == a.dk && channels::has_pairs(gated::call_of(a));
}

std::size_t gated_channels_workspace(const GatedArgs& a) {
    gated::check(a, name);
    const Plan plan(a);
    return plan.empty() ? 0 : plan.bytes();
}

void gated_channels(const GatedArgs& a, cudaStream_t stream) {
    gated::check(a, name);
    const Plan plan(a);
    if (plan.empty()) return;
    gated::check_workspace(a.workspace, plan.bytes(), name);
    char* at = static_cast<char*>(a.workspace.data);
    float* between = a.state ? a.state : reinterpret_cast<float*>(at + plan.state_at);
    for (int64_t i = 0; i < plan.parts; ++i) {
        const channels::Part p = plan.part(i, at, between);
        channels::launch_prepare(p, stream, i > 0);
        channels::launch_sweep(p, stream);
    }
}

std::size_t gated_channels_packed_workspace(const GatedArgs& a, const Sequences& sequences) {
    gated::check(a, name);
    return a.B * a.H * a.N == 0 ? 0 : PackedPlan(a, sequences).bytes();
}

void gated_channels_packed(const GatedArgs& a, const Sequences& sequences, cudaStream_t stream) {
    gated::check(a, name);
    if (a.B * a.H * a.N == 0) return;
    if (!a.state) fail(name, ": packed sequences without states");
    const PackedPlan plan(a, sequences);
    gated::check_workspace(a.workspace, plan.bytes(), name);
    char* at = static_cast<char*>(a.workspace.data);
    channels::RoundPart p{plan.tiles.part(at), {}, 0};
    p.part.state_in = p.part.state_out = a.state;
    for (const gated::Round& round : plan.rounds) {
        p.lists = gated::copy_lists(round, at + plan.lists_at, stream);
        p.parts = static_cast<int>(round.parts.size()), p.part.chunks = static_cast<int>(round.chunks());
        channels::launch_prepare(p, stream);
        channels::launch_sweep(p, stream);
    }
}

}  // namespace causeway::gpu
