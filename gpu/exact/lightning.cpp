#include "gpu/exact/lightning.hpp"

#include <algorithm>

#include "gpu/base/device.hpp"
#include "gpu/base/error.hpp"
#include "gpu/exact/lightning/call.hpp"

namespace causeway::gpu {

namespace {

la::Call call_of(const CausalArgs& a) {
    la::check_args("lightning_attention_2", a);
    la::Call call;
    call.problem[0] = a;
    call.state_batch = a.H * a.r * a.d;
    call.workspace = a.workspace;
    return call;
}

la::Call steps_of(const CausalArgs& a, bool with_after) {
    la::Call call = call_of(a);
    call.in_steps = true;
    // The ends of a few batch-heads are shared out among all multiprocessors.
    constexpr std::int64_t most = 8;
    if (with_after)
        call.end_parts = static_cast<int>(
            std::clamp<std::int64_t>(device().multiprocessors / std::max<std::int64_t>(a.B * a.H, 1), 1, most));
    return call;
}

}  // namespace

std::size_t lightning_workspace(const CausalArgs& a) { return la::workspace(call_of(a)); }

void lightning_attention_2(const CausalArgs& a, cudaStream_t stream) { la::run(call_of(a), stream); }

bool lightning_in_steps(const CausalArgs& a) { return la::steps_reach(call_of(a)); }

std::size_t lightning_steps_workspace(const CausalArgs& a, bool with_after) {
    return la::workspace(steps_of(a, with_after));
}

void lightning_states(const CausalArgs& a, float* after, cudaStream_t stream) {
    // The last chunk's tokens beyond N count as zeros, but decay.
    if (after && a.gamma && a.N % la::chunk != 0)
        fail("N: ", a.N, ", expected a multiple of ", la::chunk, " for states after it");
    la::run_states(steps_of(a, after != nullptr), after, stream);
}

void lightning_outputs(const CausalArgs& a, bool with_after, cudaStream_t stream) {
    if (!a.state) fail("state: none, expected one for outputs in a second step");
    la::run_outputs(steps_of(a, with_after), stream);
}

}  // namespace causeway::gpu
