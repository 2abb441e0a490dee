#include "gpu/exact/lightning.hpp"

#include <algorithm>

#include "gpu/base/device.hpp"
#include "gpu/base/error.hpp"
#include "gpu/exact/lightning_plan.hpp"
#include "gpu/kit/tensor_map.hpp"

namespace causeway::gpu {

namespace la {

namespace {

using std::int64_t;

bool empty(const CausalArgs& a) { return a.B == 0 || a.H == 0 || a.N == 0; }

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

// Calls f with the heads of `call`, at most most_heads of them at a time.
template <class F>
void each_group(const Call& call, const F& f) {
    const int64_t H = call.any().H;
    if (H <= most_heads) return f(call);
    for (int64_t h = 0; h < H; h += most_heads) {
        Call group = call;
        for (CausalArgs& a : group.problem) {
            const auto at = [&](const void* p, Strides s) -> const void* {
                return p ? static_cast<const char*>(p) + h * s.head * bytes_of(a.type) : nullptr;
            };
            a.H = std::min<int64_t>(most_heads, H - h);
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
    return state * (static_cast<std::size_t>(p.states()) + static_cast<std::size_t>(a.state ? a.B * a.H : 0));
}

}  // namespace

void check_args(const char* function, const CausalArgs& a) {
    if (a.B < 0 || a.H < 0 || a.N < 0)
        fail(function, ": B, H, N are ", a.B, ", ", a.H, ", ", a.N, ", expected none below 0");
    if (a.r < 1 || a.d < 1 || a.r > portable_most || a.d > portable_most) {
        fail(function, ": r and d are ", a.r, " and ", a.d, ", expected 1 ... ", portable_most);
    }
    for (int64_t h = 0; h < a.H; ++h) {
        if (!(a.decay_of(h) > 0 && a.decay_of(h) <= 1)) fail("decay: ", a.decay_of(h), ", expected a number in (0, 1]");
    }
    if (most_problems * a.B * a.H * ((a.N + chunk - 1) / chunk) >= int64_t{1} << 32)
        fail(function, ": more than 2^36 tokens in all heads");
}

std::size_t workspace(const Call& call) {
    if (empty(call.any()) || !tensor_cores_reach(call)) return 0;
    std::size_t most = 0;
    each_group(call, [&](const Call& group) { most = std::max(most, workspace_of(group, plan(group))); });
    return most;
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
        const Plan& p = plan(group);
        const std::size_t need = workspace_of(group, p);
        if (need > group.workspace.bytes) fail("workspace: ", group.workspace.bytes, " bytes, expected ", need);
        run_hopper(group, p, stream);
    });
}

}  // namespace la

namespace {

la::Call call_of(const CausalArgs& a) {
    la::check_args("lightning_attention_2", a);
    la::Call call;
    call.problem[0] = a;
    call.state_batch = a.H * a.r * a.d;
    call.workspace = a.workspace;
    return call;
}

}  // namespace

std::size_t lightning_workspace(const CausalArgs& a) { return la::workspace(call_of(a)); }

void lightning_attention_2(const CausalArgs& a, cudaStream_t stream) { la::run(call_of(a), stream); }

}  // namespace causeway::gpu
