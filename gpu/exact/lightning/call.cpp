#include "gpu/exact/lightning/call.hpp"

#include <algorithm>

#include "gpu/base/device.hpp"
#include "gpu/base/error.hpp"
#include "gpu/exact/check.hpp"
#include "gpu/exact/lightning/plan.hpp"
#include "gpu/kit/tensor_map.hpp"

namespace causeway::gpu::la {

namespace {

using std::int64_t;

// Calls f with the heads of `call`, at most max_heads of them at a time.
template <class F>
void each_group(const Call& call, const F& f) {
    const int64_t H = call.any().H;
    if (H <= max_heads) return f(call);
    for (int64_t h = 0; h < H; h += max_heads) {
        Call group = call;
        for (CausalArgs& a : group.problem) {
            const auto at = [&](const void* p, Strides s) -> const void* {
                return p ? static_cast<const char*>(p) + h * s.head * bytes_of(a.type) : nullptr;
            };
            a.H = std::min<int64_t>(max_heads, H - h);
            a.q = at(a.q, a.q_stride), a.k = at(a.k, a.k_stride), a.v = at(a.v, a.v_stride),
            a.o = const_cast<void*>(at(a.o, a.o_stride));
            if (a.gamma) a.gamma += h;
            if (a.state) a.state += h * a.r * a.d;
        }
        f(group);
    }
}

std::size_t workspace_of(const Call& call, const Plan& p) {
    const CausalArgs& a = call.any();
    const std::size_t state =
        static_cast<std::size_t>(padded(a.r)) * static_cast<std::size_t>(padded(a.d)) * sizeof(float);
    const int of_each = call.end_parts + (a.state || call.in_steps ? 1 : 0);  // of a batch-head, besides the splits'
    return state * static_cast<std::size_t>(p.states() + of_each * a.B * a.H);
}

// Throws Error where the workspace is too small.
const Plan& plan_within(const Call& call) {
    const Plan& p = plan(call);
    const std::size_t need = workspace_of(call, p);
    if (need > call.workspace.bytes) fail("workspace: ", call.workspace.bytes, " bytes, expected ", need);
    return p;
}

}  // namespace

bool tensor_cores_reach(const Call& call) {
    if (!device().hopper()) return false;
    for (int i = 0; i < call.count; ++i) {
        const CausalArgs& a = call.problem[static_cast<std::size_t>(i)];
        const auto reached = [&](const void* data, Strides s) { return tma_reaches(data, a.type, s); };
        if (a.r > 128 || a.d > 128 || (a.type == Type::Float32 && a.precision == Precision::exact)) return false;
        if (!(reached(a.q, a.q_stride) && reached(a.k, a.k_stride) && reached(a.v, a.v_stride) &&
              reached(a.o, a.o_stride)))
            return false;
    }
    return true;
}

void check_args(const char* function, const CausalArgs& a) {
    check_causal(function, a);
    if (max_problems * a.B * a.H * ((a.N + chunk - 1) / chunk) >= int64_t{1} << 32)
        fail(function, ": more than 2^36 tokens in all heads");
}

std::size_t workspace(const Call& call) {
    if (empty(call.any()) || !tensor_cores_reach(call)) return 0;
    std::size_t bytes = 0;
    each_group(call, [&](const Call& group) { bytes = std::max(bytes, workspace_of(group, plan(group))); });
    return bytes;
}

void run(const Call& call, cudaStream_t stream) {
    if (empty(call.any())) return;
    const bool fast = tensor_cores_reach(call);
    each_group(call, [&](const Call& group) {
        if (!fast) {
            for (int i = 0; i < group.count; ++i) {
                run_portable(group.problem[static_cast<std::size_t>(i)], group.reversed >> i & 1, group.state_batch,
                             stream);
            }
            return;
        }
        run_hopper(group, plan_within(group), stream);
    });
}

bool steps_reach(const Call& call) {
    const CausalArgs& a = call.any();
    return !empty(a) && a.type != Type::Float32 && a.H <= max_heads && tensor_cores_reach(call);
}

void run_states(const Call& call, float* after, cudaStream_t stream) {
    run_hopper_states(call, plan_within(call), after, stream);
}

void run_outputs(const Call& call, cudaStream_t stream) { run_hopper_outputs(call, plan_within(call), stream); }

}  // namespace causeway::gpu::la
