#include "gpu/gradient/gated.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/base/error.hpp"
#include "gpu/base/error.hpp"
#include "gpu/gradient/gated_chunks.hpp"
#include "gpu/gradient/gated_heads.hpp"
#include "gpu/gradient/gated_hopper.hpp"
#include "gpu/gradient/gated_lightning.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;

constexpr const char* name = "gated_gradient";

// What lies in the workspace, in Float32.
struct Plan {
    gated::Call call;
    int matrices;
    int64_t each, parts, state, boundaries, states, rows, scores;

    explicit Plan(const GatedArgs& a) : call(gated::call_of(a)), matrices(a.beta ? 3 : 0) {
        constexpr int64_t min_tokens = 1024, all = 65536;
        const auto balanced = static_cast<int64_t>(std::sqrt(16.0 * static_cast<double>(call.N)));
        each = (std::max({min_tokens, balanced, all / std::max<int64_t>(call.all_heads, 1) / 2}) + 31) / 32 * 32;
        parts = (call.N + each - 1) / each;
        const gated::Part p = part(0);
        const auto whole = [](int64_t floats) { return (floats + 3) / 4 * 4; };
        state = call.all_heads * call.dk * call.dv;
        boundaries = parts > 1 ? whole((parts + 1) * state) : 0;
        states = whole(p.chunks * state);
        rows = call.beta ? whole(call.all_heads * p.chunks * p.C * call.dv) : 0;
        scores = whole(call.all_heads * p.chunks * p.floats);
    }
    gated::Part part(int64_t i) const {
        return gated::part_of(call, i * each, std::min(each, call.N - i * each), matrices);
    }
    bool empty() const { return call.N == 0 || call.all_heads == 0; }
    std::size_t bytes() const {
        return empty() ? 0 : static_cast<std::size_t>(boundaries + 2 * states + 2 * rows + scores) * sizeof(float);
    }
};

// A way to compute the gradient on tensor cores.
struct Way {
    bool (*takes)(const GatedGradArgs&);
    std::size_t (*workspace)(const GatedGradArgs&);
    void (*run)(const GatedGradArgs&, cudaStream_t);
};
// The first that takes the call; null: FMA units.
const Way* way_of(const GatedGradArgs& a) {
    static constexpr Way ways[] = {
        {gated_lightning_gradient_takes, gated_lightning_gradient_workspace, gated_lightning_gradient},
        {gated_heads_gradient_takes, gated_heads_gradient_workspace, gated_heads_gradient},
        {gated_hopper_gradient_takes, gated_hopper_gradient_workspace, gated_hopper_gradient},
    };
    const auto* const way = std::find_if(std::begin(ways), std::end(ways), [&](const Way& x) { return x.takes(a); });
    return way == std::end(ways) ? nullptr : way;
}

void check(const GatedGradArgs& a) {
    gated::check(a.in, name);
    if (a.in.B * a.in.H * a.in.N == 0) return;
    if (!a.dO || !a.dq || !a.dk || !a.dv) fail(name, ": dO, dq, dk or dv is null");
    if (a.in.gates > 0 && !a.dg) fail(name, ": dg is null where there are gates");
    if (a.in.beta && !a.dbeta) fail(name, ": dbeta is null where there is a beta");
}

// Where there is no token, the last state is the first.
void hand_through(const GatedGradArgs& a, cudaStream_t stream) {
    if (!a.dstate || a.dstate == a.dstate_in) return;
    const auto bytes = static_cast<std::size_t>(a.in.B * a.in.H * a.in.dk * a.in.dv) * sizeof(float);
    gpu::check(a.dstate_in ? cudaMemcpyAsync(a.dstate, a.dstate_in, bytes, cudaMemcpyDeviceToDevice, stream)
                           : cudaMemsetAsync(a.dstate, 0, bytes, stream),
               "copying dstate");
}

}  // namespace

std::size_t gated_gradient_workspace(const GatedGradArgs& a) {
    gated::check(a.in, name);
    if (const Way* const way = way_of(a)) return way->workspace(a);
    return Plan(a.in).bytes();
}

bool gated_gradient_adds(const GatedGradArgs& a) { return gated_heads_gradient_adds(a); }

bool gated_gradient_takes_gate_step(const GatedGradArgs& a) { return gated_heads_gradient_takes(a); }

bool gated_gradient_has_state(const GatedGradArgs& a) {
    const Way* const way = way_of(a);
    return way && way->run == gated_heads_gradient;
}

void gated_gradient(const GatedGradArgs& a, cudaStream_t stream) {
    check(a);
    if (a.after && !gated_gradient_has_state(a)) fail(name, ": after: given, expected none for this call");
    if (a.gate_step > 0 && !gated_gradient_takes_gate_step(a)) {
        fail(name, ": gate_step: ", a.gate_step, ", expected none for this call");
    }
    if (a.dq_sum && !gated_gradient_adds(a)) fail(name, ": dq_sum: given, expected none for this call");
    if ((a.dq_sum != nullptr) != (a.dk_sum != nullptr)) fail(name, ": dq_sum and dk_sum: one of them is null");
    if (a.in.N == 0) return hand_through(a, stream);
    if (const Way* const way = way_of(a)) return way->run(a, stream);
    const Plan plan(a.in);
    if (plan.empty()) return;
    gated::check_workspace(a.in.workspace, plan.bytes(), name);
    float* at = static_cast<float*>(a.in.workspace.data);
    const auto take = [&](int64_t floats) {
        float* here = at;
        at += floats;
        return here;
    };
    float *boundary = take(plan.boundaries), *before = take(plan.states), *after = take(plan.states);
    float *Y = take(plan.rows), *dY = take(plan.rows), *scores = take(plan.scores);
    // The state before part i, and the gradient between parts in the place after the last of them.
    const auto state_before = [&](int64_t i) -> const float* {
        return i == 0 ? a.in.state : boundary + i * plan.state;
    };
    float* between = boundary + plan.parts * plan.state;

    for (int64_t i = 0; i + 1 < plan.parts; ++i) {
        gated::Call keys = plan.call;
        keys.group = 0;
        gated::Part p = gated::part_of(keys, i * plan.each, plan.each, a.in.beta ? 1 : 0);
        p.scores = scores, p.state_in = state_before(i), p.state_out = boundary + (i + 1) * plan.state;
        gated::launch_scores(p, stream);
        gated::launch_sweep(p, stream);
    }
    const GatedArgs& in = a.in;
    for (int64_t i = plan.parts - 1; i >= 0; --i) {
        gradient::BackwardPart b{};
        b.part = plan.part(i);
        b.part.scores = scores, b.part.state_in = state_before(i), b.part.states = before, b.part.Y = Y;
        b.dO = gated::operand(a.dO, in.type, in.o_stride, in.dv);
        b.dq = gated::operand(a.dq, in.type, a.of_dq(), in.dk);
        b.dk = gated::operand(a.dk, in.type, a.of_dk(), in.dk);
        b.dv = gated::operand(a.dv, in.type, in.v_stride, in.dv);
        b.dg = a.dg, b.dbeta = a.dbeta;
        b.dstate_in = i + 1 < plan.parts ? between : a.dstate_in;
        b.dstate_out = i > 0 ? between : a.dstate;
        b.after = after, b.dY = dY;
        gated::launch_scores(b.part, stream);
        gated::launch_sweep(b.part, stream);
        gradient::launch_backward_sweep(b, stream);
        gradient::launch_finish(b, stream);
    }
}

}  // namespace causeway::gpu
