#include "gpu/gated/portable.hpp"

#include <algorithm>

#include "gpu/gated/chunks.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;

constexpr const char* name = "gated_portable";

// Tokens of a head that are worked on between two launches: enough chunks of all heads together to fill a GPU, few
// enough that their scores are small beside q, k and v.
struct Plan {
    gated::Call call;
    int64_t each, parts;
    std::size_t score_bytes, state_bytes;

    explicit Plan(const GatedArgs& a) : call(gated::call_of(a)) {
        constexpr int64_t all = 65536, min_tokens = 1024;
        each = std::max(min_tokens, all / std::max<int64_t>(call.all_heads, 1) / 32 * 32);
        parts = (call.N + each - 1) / each;
        const gated::Part p = part(0);
        score_bytes = static_cast<std::size_t>(call.all_heads * p.chunks * p.floats) * sizeof(float);
        state_bytes =
            parts > 1 && !call.state ? static_cast<std::size_t>(call.all_heads * call.dk * call.dv) * sizeof(float) : 0;
        state_bytes = (state_bytes + 15) / 16 * 16;
    }
    gated::Part part(int64_t i) const {
        return gated::part_of(call, i * each, std::min(each, call.N - i * each), call.beta ? 1 : 0);
    }
    bool empty() const { return call.N == 0 || call.all_heads == 0; }
};

}  // namespace

std::size_t gated_portable_workspace(const GatedArgs& a) {
    gated::check(a, name);
    const Plan plan(a);
    return plan.empty() ? 0 : plan.state_bytes + plan.score_bytes;
}

void gated_portable(const GatedArgs& a, cudaStream_t stream) {
    gated::check(a, name);
    const Plan plan(a);
    if (plan.empty()) return;
    gated::check_workspace(a.workspace, plan.state_bytes + plan.score_bytes, name);
    char* at = static_cast<char*>(a.workspace.data);
    float* between = plan.state_bytes > 0 ? reinterpret_cast<float*>(at) : a.state;
    for (int64_t i = 0; i < plan.parts; ++i) {
        gated::Part p = plan.part(i);
        p.scores = reinterpret_cast<float*>(at + plan.state_bytes);
        p.state_in = i == 0 ? a.state : between;
        p.state_out = i + 1 < plan.parts ? between : a.state;
        gated::launch_scores(p, stream);
        gated::launch_sweep(p, stream);
    }
}

}  // namespace causeway::gpu
