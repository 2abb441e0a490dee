#include "gpu/gradient/gated_hopper.hpp"

#include <algorithm>
#include <cmath>

#include "gpu/base/device.hpp"
#include "gpu/base/error.hpp"
#include "gpu/gradient/gated_hopper/part.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;
using namespace channels;

constexpr const char* name = "gated_gradient";

// Chunks between two launches, of a head and of all. Fewer take less memory and more time: 60 MB in the place of 126
// and 168 take 18 to 21 % more, with the delta rule 32 % (docs/kernels/gated.md).
constexpr int64_t min_chunks = 4, enough_chunks = 1024;

// Tokens of a head between two launches, and what lies where in the workspace.
struct Plan {
    gated::Call call;
    int DK, DV;
    int64_t each = 0, parts = 0, state;
    bool in_dv;  // the states before parts lie there
    std::size_t bytes = 0;
    std::size_t not_finite, given, walks;  // `walks`: where what follows lies, which the walk token by token takes anew
    std::size_t boundaries, keys, queries, values, inverse, states, after, dU, last;
    int64_t segment, segments;  // of that walk
    bool copies_values;

    explicit Plan(const GatedGradArgs& a)
        : call(gated::call_of(a.in)), DK(padded_rows(call.dk)), DV(padded_columns(call.dv)) {
        copies_values = call.beta || !call.v.whole;
        state = call.all_heads * call.dk * call.dv;
        const int64_t all_chunks = (call.N + C - 1) / C;
        if (all_chunks > 0) {
            const int64_t most = std::max(min_chunks, enough_chunks / std::max<int64_t>(call.all_heads, 1));
            parts = (all_chunks + most - 1) / most;
            each = (all_chunks + parts - 1) / parts * C;
            parts = (call.N + each - 1) / each;
        }
        in_dv = lies_whole(a) && each >= 2 * call.dk;
        const int64_t chunks = call.all_heads * each / C, narrow = chunks * (DV / sweep_columns);
        const auto take = [&](int64_t n) {
            const std::size_t at = bytes;
            bytes += static_cast<std::size_t>((n + 255) / 256 * 256);
            return at;
        };
        not_finite = take(4);
        given = take(a.dstate_in_place() ? state * 4 : 0);
        walks = bytes;
        boundaries = take(in_dv ? 0 : parts * state * 4);
        last = take(state * 4);
        keys = take(chunks * KeyTiles(DK, call.beta != nullptr).bytes);
        queries = take(chunks * call.group * QueryTiles(DK).bytes);
        values = take(copies_values ? narrow * value_bytes : 0);
        inverse = take(call.beta ? chunks * inverse_bytes : 0);
        states = take(narrow * tile_bytes(DK, sweep_columns));
        after = take(narrow * tile_bytes(DK, sweep_columns));
        dU = take(narrow * value_bytes);
        segment = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(call.N))));
        segments = segment > 0 ? (call.N + segment - 1) / segment : 0;
        bytes = std::max(bytes, walks + static_cast<std::size_t>(walk_bytes()));
    }
    // Whether the rows of dv of each head, and of all heads, lie one behind the other: a state of Float32 then has room
    // in 2 dk of them. They are written last of all that a part writes.
    bool lies_whole(const GatedGradArgs& a) const {
        const Strides s = a.in.v_stride;
        return s.token == call.dv && s.head >= call.N * s.token && s.head * 2 % 4 == 0 &&
               reinterpret_cast<std::uintptr_t>(a.dv) % 4 == 0 &&
               (s.batch == call.heads * s.head || call.all_heads == call.heads);
    }
    // Of one batch-head.
    int64_t walk_bytes() const { return (segments + segment) * call.dk * call.dv * 4; }
    bool empty() const { return call.N == 0 || call.all_heads == 0; }
};

// States of all batch-heads, `step` floats apart.
struct States {
    float* data;
    int64_t step;
};

// The plan's places in a workspace.
struct Pass {
    const GatedGradArgs& a;
    const Plan& plan;
    unsigned char* at;

    float* floats(std::size_t where) const { return reinterpret_cast<float*>(at + where); }
    // The states before part i. Those before the last part are read before the gradient of states between parts is
    // written to their place.
    States boundary(int64_t i) const {
        const int64_t step = int64_t{plan.call.dk} * plan.call.dv;
        if (i == 0) return {plan.call.state, step};
        if (!plan.in_dv) return {floats(plan.boundaries) + i * plan.state, step};
        if (i + 1 == plan.parts) return {floats(plan.last), step};
        auto* const rows = static_cast<unsigned char*>(a.dv) + i * plan.each * a.in.v_stride.token * 2;
        return {reinterpret_cast<float*>(rows), a.in.v_stride.head / 2};
    }
    Part part(int64_t i) const {
        Part p{};
        p.call = plan.call;
        p.first = i * plan.each, p.tokens = std::min(plan.each, plan.call.N - p.first);
        p.chunks = static_cast<int>((p.tokens + C - 1) / C);
        p.DK = plan.DK, p.DV = plan.DV;
        p.keys = at + plan.keys, p.queries = at + plan.queries;
        if (plan.copies_values) p.values = at + plan.values;
        const States before = boundary(i);
        p.state_in = before.data, p.state_in_step = before.step;
        p.not_finite = reinterpret_cast<int*>(at + plan.not_finite);
        return p;
    }
};

}  // namespace

bool gated_hopper_gradient_takes(const GatedGradArgs& a) {
    const GatedArgs& in = a.in;
    return in.type == Type::BFloat16 && in.dk <= 128 && in.dv <= 128 && device().hopper() &&
           gated::operand(a.dO, in.type, in.o_stride, in.dv).whole;
}

std::size_t gated_hopper_gradient_workspace(const GatedGradArgs& a) {
    const Plan plan(a);
    return plan.empty() ? 0 : plan.bytes;
}

void gated_hopper_gradient(const GatedGradArgs& a, cudaStream_t stream) {
    const GatedArgs& in = a.in;
    const Plan plan(a);
    if (plan.empty()) return;
    gated::check_workspace(in.workspace, plan.bytes, name);
    const Pass pass{a, plan, static_cast<unsigned char*>(in.workspace.data)};
    check(cudaMemsetAsync(pass.at + plan.not_finite, 0, 4, stream), "clearing a flag");
    const float* const given = gradient::kept_dstate(a, pass.floats(plan.given), stream);
    for (int64_t i = 0; i + 1 < plan.parts; ++i) {
        Part p = pass.part(i);
        p.call.group = 0;
        const States next = pass.boundary(i + 1);
        p.state_out = next.data, p.state_out_step = next.step;
        launch_prepare(p, stream);
        launch_sweep(p, stream);
    }
    gradient::Walks walks{};
    walks.call = plan.call;
    walks.dO = gated::operand(a.dO, in.type, in.o_stride, in.dv);
    walks.dq = gated::operand(a.dq, in.type, a.of_dq(), in.dk);
    walks.dk = gated::operand(a.dk, in.type, a.of_dk(), in.dk);
    walks.dv = gated::operand(a.dv, in.type, in.v_stride, in.dv);
    walks.dg = a.dg, walks.dbeta = a.dbeta, walks.gate_step = in.N;
    walks.dstate_in = given, walks.dstate_out = a.dstate;
    walks.not_finite = reinterpret_cast<const int*>(pass.at + plan.not_finite);
    walks.each = plan.segment, walks.segments = plan.segments;
    walks.blocks = std::min(plan.call.all_heads,
                            static_cast<int64_t>(plan.bytes - plan.walks) / std::max<int64_t>(plan.walk_bytes(), 1));
    walks.states = pass.floats(plan.walks);
    float* between = pass.floats(plan.last);
    for (int64_t i = plan.parts - 1; i >= 0; --i) {
        gradient::BackwardChunks b{};
        b.part = pass.part(i);
        if (in.beta) b.part.inverse = pass.at + plan.inverse;
        launch_prepare(b.part, stream);
        Part forward = b.part;
        forward.call.group = 0;
        forward.states = pass.at + plan.states;
        launch_sweep(forward, stream);
        b.part.states = forward.states;
        b.dO = walks.dO, b.dq = walks.dq, b.dk = walks.dk, b.dv = walks.dv, b.dg = a.dg, b.dbeta = a.dbeta;
        b.dstate_in = i + 1 < plan.parts ? between : given;
        b.dstate_out = i > 0 ? between : a.dstate;
        b.after = pass.at + plan.after, b.dU = pass.at + plan.dU;
        gradient::launch_backward_chunks(b, stream);
        gradient::launch_finish_chunks(b, stream);
    }
    gradient::launch_walks(walks, stream);
}

}  // namespace causeway::gpu
