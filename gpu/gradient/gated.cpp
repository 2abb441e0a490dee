#include "gpu/gradient/gated.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/base/error.hpp"
#include "gpu/base/device.hpp"
#include "gpu/base/error.hpp"
#include "gpu/gradient/gated_chunks.hpp"
#include "gpu/gradient/gated_heads.hpp"
#include "gpu/gradient/gated_hopper.hpp"
#include "gpu/gradient/gated_lightning.hpp"
#include "gpu/gradient/parts.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;

constexpr const char* name = "gated_gradient";

// What lies in the workspace, in Float32. A part has as many chunks as part_floats have room for, at least min_chunks.
// The states before parts lie in dv, where that has room for them and rows one behind the other; otherwise in the
// workspace, and parts are not so many that these states take more than the part.
struct Plan {
    gated::Call call;
    int matrices;
    bool in_dv = false;
    gradient::Parts parts;
    int64_t state = 0, boundaries = 0, states = 0, rows = 0, scores = 0;

    explicit Plan(const GatedGradArgs& a) : call(gated::call_of(a.in)), matrices(a.in.beta ? 3 : 0) {
        constexpr int64_t min_chunks = 2, part_floats = 14'500'000, finish_blocks = 2;  // of a multiprocessor
        state = call.all_heads * call.dk * call.dv;
        const gated::Part p = gated::part_of(call, 0, call.N, matrices);
        if (empty()) return;
        const int64_t of_chunk = 2 * state + call.all_heads * (p.floats + (call.beta ? 2 * p.C * call.dv : 0));
        const auto with = [&](int64_t least) {
            return gradient::parts_of(call.N, p.C, call.all_heads, std::max(least, part_floats / of_chunk),
                                      finish_blocks * std::max(device().multiprocessors, 1), least);
        };
        parts = with(min_chunks);
        in_dv = a.states_fit_in_dv(parts.each);
        const auto root = static_cast<int64_t>(std::sqrt(16.0 * static_cast<double>(call.N)));
        if (!in_dv) parts = with(std::max(min_chunks, root / p.C));
        const auto whole = [](int64_t floats) { return (floats + 3) / 4 * 4; };
        boundaries = parts.count > 1 ? whole(in_dv ? state : (parts.count + 1) * state) : 0;
        const int64_t chunks = parts.chunks(0);
        states = whole(chunks * state);
        rows = call.beta ? whole(call.all_heads * chunks * p.C * call.dv) : 0;
        scores = whole(call.all_heads * chunks * p.floats);
    }
    gated::Part part(int64_t i) const { return gated::part_of(call, i * parts.each, parts.tokens(i), matrices); }
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
    return Plan(a).bytes();
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
    const Plan plan(a);
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
    float* const between = boundary + (plan.in_dv ? 0 : plan.parts.count * plan.state);
    const gradient::StatesBefore states_before{a, plan.parts, plan.in_dv ? nullptr : boundary, between};
    const auto start = [&](gated::Part& p, int64_t i) {
        const gradient::States x = states_before(i);
        p.scores = scores, p.state_in = x.data, p.state_in_step = x.step;
    };

    for (int64_t i = 0; i + 1 < plan.parts.count; ++i) {
        gated::Call keys = plan.call;
        keys.group = 0;
        gated::Part p = gated::part_of(keys, i * plan.parts.each, plan.parts.each, a.in.beta ? 1 : 0);
        const gradient::States next = states_before(i + 1);
        start(p, i);
        p.state_out = next.data, p.state_out_step = next.step;
        gated::launch_scores(p, stream);
        gated::launch_sweep(p, stream);
    }
    const GatedArgs& in = a.in;
    for (int64_t i = plan.parts.count - 1; i >= 0; --i) {
        gradient::BackwardPart b{};
        b.part = plan.part(i);
        start(b.part, i);
        b.part.states = before, b.part.Y = Y;
        b.dO = gated::operand(a.dO, in.type, in.o_stride, in.dv);
        b.dq = gated::operand(a.dq, in.type, a.of_dq(), in.dk);
        b.dk = gated::operand(a.dk, in.type, a.of_dk(), in.dk);
        b.dv = gated::operand(a.dv, in.type, in.v_stride, in.dv);
        b.dg = a.dg, b.dbeta = a.dbeta;
        b.dstate_in = i + 1 < plan.parts.count ? between : a.dstate_in;
        b.dstate_out = i > 0 ? between : a.dstate;
        b.after = after, b.dY = dY;
        gated::launch_scores(b.part, stream);
        gated::launch_sweep(b.part, stream);
        gradient::launch_backward_sweep(b, stream);
        gradient::launch_finish(b, stream);
    }
}

}  // namespace causeway::gpu
