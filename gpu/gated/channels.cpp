#include "gpu/gated/channels.hpp"

#include <algorithm>

#include "gpu/base/device.hpp"
#include "gpu/gated/channels/part.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;

constexpr const char* name = "gated_channels";

// Tokens of a head between two launches, and where the tiles of such a part lie in the workspace.
struct Plan {
    gated::Call call;
    int64_t each, parts;
    std::size_t bytes = 0;
    std::size_t state_at = 0, keys_at = 0, queries_at = 0, values_at = 0;
    bool copies_values;

    explicit Plan(const GatedArgs& a) : call(gated::call_of(a)) {
        constexpr int64_t all = 65536, min_tokens = 1024, C = channels::C;
        each = std::max(min_tokens, all / std::max<int64_t>(call.all_heads, 1) / C * C);
        parts = (call.N + each - 1) / each;
        const int64_t chunks = (std::min(each, call.N) + C - 1) / C, tiles = call.all_heads * chunks;
        const int64_t DK = channels::padded_rows(call.dk), DV = channels::padded_columns(call.dv);
        const auto take = [&](int64_t n) {
            const std::size_t at = bytes;
            bytes += static_cast<std::size_t>((n + 255) / 256 * 256);
            return at;
        };
        if (parts > 1 && !call.state) state_at = take(call.all_heads * call.dk * call.dv * 4);
        keys_at = take(tiles * channels::KeyTiles(static_cast<int>(DK), call.beta != nullptr).bytes);
        queries_at = take(tiles * call.group * channels::QueryTiles(static_cast<int>(DK)).bytes);
        copies_values = call.beta || !call.v.whole;
        if (copies_values) values_at = take(tiles * (DV / channels::sweep_columns) * channels::value_bytes);
    }
    channels::Part part(int64_t i, char* at, float* between) const {
        channels::Part p{};
        p.call = call;
        p.first = i * each, p.tokens = std::min(each, call.N - p.first);
        p.chunks = static_cast<int>((p.tokens + channels::C - 1) / channels::C);
        p.DK = channels::padded_rows(call.dk), p.DV = channels::padded_columns(call.dv);
        const auto tiles = [&](std::size_t where) { return reinterpret_cast<unsigned char*>(at + where); };
        p.keys = tiles(keys_at), p.queries = tiles(queries_at);
        if (copies_values) p.values = tiles(values_at);
        p.state_in = i == 0 ? call.state : between;
        p.state_out = i + 1 < parts ? between : call.state;
        return p;
    }
    bool empty() const { return call.N == 0 || call.all_heads == 0; }
};

}  // namespace

bool gated_channels_takes(const GatedArgs& a) {
    return a.type == Type::BFloat16 && a.gates == a.dk && a.dk > 1 && a.dk <= 128 && a.dv >= 1 && a.dv <= 128 &&
           device().hopper();
}

std::size_t gated_channels_workspace(const GatedArgs& a) {
    gated::check(a, name);
    const Plan plan(a);
    return plan.empty() ? 0 : plan.bytes;
}

void gated_channels(const GatedArgs& a, cudaStream_t stream) {
    gated::check(a, name);
    const Plan plan(a);
    if (plan.empty()) return;
    gated::check_workspace(a.workspace, plan.bytes, name);
    char* at = static_cast<char*>(a.workspace.data);
    float* between = a.state ? a.state : reinterpret_cast<float*>(at + plan.state_at);
    for (int64_t i = 0; i < plan.parts; ++i) {
        const channels::Part p = plan.part(i, at, between);
        channels::launch_prepare(p, stream);
        channels::launch_sweep(p, stream);
    }
}

}  // namespace causeway::gpu
