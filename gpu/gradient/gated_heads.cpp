#include "gpu/gradient/gated_heads.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gpu/base/device.hpp"
#include "gpu/base/error.hpp"
#include "gpu/gradient/gated_heads/part.hpp"
#include "gpu/gradient/gated_hopper/part.hpp"
#include "gpu/kit/tensor_map.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;
using namespace gated_heads;

constexpr const char* name = "gated_gradient";
// States of a block of columns, of all heads together, of a part: beside many sweeps, and beside few, each of which
// then begins less often; and with how many all chunks are one part, which has one place and not two. Without the delta
// rule and widths of 128: 512, 768, 1024, 1536 take 0.483, 0.459, 0.435, 0.423 ms with 32 heads and 8192 tokens, and
// 25, 33, 41, 58 MB.
constexpr int64_t tiles_of_part = 640, tiles_of_few = 800, tiles_of_whole = 2 * tiles_of_part, tiles_of_linear = 1024;

// Where 64 columns of each token lie between the kernels.
struct Square {
    std::size_t at = 0;
    bool in_workspace = false;
};

// Into how many splits a head is cut: as many as let the sweeps over all heads have half of the multiprocessors, of 32
// chunks at least. Every split is gone through twice, so that two of them save nothing.
int64_t splits_of(int64_t chunks, int64_t sweeps) {
    constexpr int64_t min_chunks = 32, min_splits = 3;
    const int64_t splits = std::min(device().multiprocessors / 2 / std::max<int64_t>(sweeps, 1), chunks / min_chunks);
    return splits < min_splits ? 1 : splits;
}

// How many chunks are taken at once, and what lies where in the workspace.
struct Plan {
    gated::Call call;
    int blocks;
    bool alone, in_dv;            // in_dv: the states before parts lie there
    bool keeps_in_gradients;      // all states lie in them, but for half of each E
    int64_t splits, all_splits;   // of a head, of all heads
    int64_t chunks, each, parts;  // of a split; each: of a part
    int64_t state, raw;
    std::size_t bytes = 0;
    std::size_t not_finite, given, walks;  // `walks`: where what follows lies, which the walk token by token takes anew
    std::size_t last_chunks, boundaries, between, gates, S[2], E[2];
    std::size_t S_behind, E_before, A;  // of splits
    Square W, P, U;
    int64_t segment, segments;  // of that walk

    explicit Plan(const GatedGradArgs& a)
        : call(gated::call_of(a.in)), blocks(call.dv > columns ? 2 : 1), alone(a.alone) {
        const int64_t all_chunks = (call.N + C - 1) / C;
        splits = splits_of(all_chunks, call.all_heads * blocks);
        all_splits = call.all_heads * splits;
        chunks = (all_chunks + splits - 1) / splits;
        const auto balanced = static_cast<int64_t>(std::sqrt(static_cast<double>(chunks) / 4));
        in_dv = call.dv == columns * 2 && a.in.v_stride.token == call.dv;
        keeps_in_gradients = !call.beta && call.dk == 2 * C && call.dv == 2 * C;
        const int64_t tiles_of_one = keeps_in_gradients        ? tiles_of_linear
                                     : in_dv && !many_sweeps() ? tiles_of_few
                                                               : tiles_of_part;
        const int64_t kept = keeps_in_gradients ? 1 : blocks;  // states of 64 columns of a chunk
        each = std::max({tiles_of_one / kept / std::max<int64_t>(all_splits, 1), balanced, int64_t{2}});
        if (chunks * kept * all_splits <= (keeps_in_gradients ? 2 * tiles_of_linear : tiles_of_whole))
            each = std::max(each, chunks);
        parts = (chunks + each - 1) / each;
        // The two chunks before the last part of the last split must be there.
        in_dv = in_dv && ((splits - 1) * chunks + (parts - 1) * each) * C <= call.N;
        state = call.all_heads * call.dk * call.dv;
        raw = all_splits * blocks * raw_floats;
        const int64_t tiles = all_splits * std::min(each, chunks);
        const auto take = [&](int64_t n) {
            const std::size_t at = bytes;
            bytes += static_cast<std::size_t>((n + 1023) / 1024 * 1024);
            return at;
        };
        const auto square = [&](bool elsewhere, int64_t width) {
            return elsewhere ? Square{} : Square{take(call.all_heads * call.N * width * 2), true};
        };
        not_finite = take(4);
        given = take(a.dstate_in_place() ? state * 4 : 0);
        walks = bytes;
        last_chunks = take(keeps_in_gradients ? call.all_heads * in_gradients * state_bytes : 0);
        boundaries = take(
            in_dv || keeps_in_gradients ? 0 : std::max<int64_t>(parts - 1, 0) * all_splits * blocks * raw_words * 4);
        between = take(raw * 4);
        gates = take(all_splits * chunks * gates_bytes);
        for (int i = 0; i < 2; ++i) {
            S[i] = take(i < parts && !keeps_in_gradients ? tiles * blocks * state_bytes : 0);
            E[i] = take(i < parts ? tiles * kept * state_bytes : 0);
        }
        const int64_t of_splits = splits > 1 ? all_splits * 4 : 0, R = call.dk > 64 ? 128 : 64;
        S_behind = take(of_splits * call.dk * call.dv), E_before = take(of_splits * call.dk * call.dv);
        A = take(of_splits * R * R);
        if (call.beta) {
            U = square(U_in_dq(), columns * blocks);
            W = square(W_in_dk(), C);
            P = square(P_in_dk() || P_in_dv(), C);
        }
        segment = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(call.N))));
        segments = segment > 0 ? (call.N + segment - 1) / segment : 0;
        bytes = std::max(bytes, walks + static_cast<std::size_t>(walk_bytes()));
    }
    // Gradients have room until they are written, where they are wide enough.
    bool U_in_dq() const { return call.dv <= call.dk; }
    bool W_in_dk() const { return call.dk >= C; }
    bool P_in_dk() const { return call.dk >= 2 * C; }
    // Of chunks whose dX, which goes there, is not known yet. A block of columns reads P before it writes dX.
    bool P_in_dv() const { return call.dv == C; }
    // Of one batch-head.
    int64_t walk_bytes() const { return (segments + segment) * call.dk * call.dv * 4; }
    // Whether the sweeps over a part, over S and over E, take most of the device.
    bool many_sweeps() const { return 2 * all_splits * blocks > device().multiprocessors * 3 / 4; }
    // How sums over heads are made. Thread blocks of a cluster find room at once where nothing else runs.
    HeadSums over_heads() const {
        const int heads = call.heads;
        const bool is_cluster = heads == 2 || heads == 4 || heads == 8;
        constexpr int64_t many_chunks = 64;
        const bool has_room = alone || chunks >= many_chunks;
        if (is_cluster && has_room && (parts == 1 || many_sweeps())) return HeadSums::by_cluster;
        return heads == 2 && parts > 1 ? HeadSums::in_memory : HeadSums::at_the_end;
    }
    // A short text beside others, which keep the device busy.
    bool beside_others() const {
        constexpr int64_t many_chunks = 128;
        return !alone && chunks < many_chunks;
    }
    bool empty() const { return call.N == 0 || call.all_heads == 0; }
};

Maps maps_of(const GatedGradArgs& a, const Plan& plan, unsigned char* workspace) {
    const GatedArgs& in = a.in;
    const auto map = [&](const void* data, int width, Strides s) {
        return tensor_map(data, in.type, in.B, s.head == 0 ? 1 : in.H, in.N, width, s, 64, C);
    };
    Maps m{map(in.q, in.dk, in.q_stride),
           map(in.k, in.dk, in.k_stride),
           map(in.v, in.dv, in.v_stride),
           map(a.dO, in.dv, in.o_stride),
           map(a.dq, in.dk, a.of_dq()),
           map(a.dk, in.dk, a.of_dk()),
           map(a.dv, in.dv, in.v_stride),
           {},
           {},
           {},
           {},
           {}};
    const auto place = [&](const Square& x, const CUtensorMap& otherwise, int width) {
        return x.in_workspace ? map(workspace + x.at, width, contiguous(in.H, in.N, width)) : otherwise;
    };
    if (in.beta) {
        m.W = place(plan.W, m.dk, C), m.P = place(plan.P, plan.P_in_dk() ? m.dk : m.dv, C);
        m.U = place(plan.U, m.dq, columns * plan.blocks);
    } else {
        m.U = m.v;
    }
    if (a.dq_sum) {
        const Strides sum{a.sum_stride.batch, 0, a.sum_stride.token};
        m.dq_sum = map(a.dq_sum, in.dk, sum), m.dk_sum = map(a.dk_sum, in.dk, sum);
    }
    return m;
}

// Chunks of `all` from `first` on, at most n.
Part chunks_of(const Plan& plan, const Part& all, int64_t first, int64_t n) {
    Part p = all;
    p.first = static_cast<int>(first), p.chunks = static_cast<int>(std::min(n, plan.chunks - first));
    return p;
}

Part part_of(const Plan& plan, const Part& all, unsigned char* workspace, int64_t i) {
    Part p = chunks_of(plan, all, i * plan.each, plan.each);
    if (!plan.keeps_in_gradients) p.S = workspace + plan.S[i % 2];
    p.E = workspace + plan.E[i % 2];
    return p;
}

// With the delta rule and without it.
void prepare(const Maps& maps, const Part& p, cudaStream_t stream) {
    if (p.call.beta) launch_prepare(maps, p, stream);
    else launch_gates(p, stream);
}
void sweep_forward(const Maps& maps, const Part& p, cudaStream_t stream) {
    if (p.call.beta) launch_forward(maps, p, stream);
    else launch_states(Sum::forward, maps, p, stream);
}
void sweep_backward(const Maps& maps, const Part& p, cudaStream_t stream) {
    if (p.call.beta) launch_backward(maps, p, stream);
    else launch_states(Sum::backward, maps, p, stream);
}
void sweep_again(const Maps& maps, const Part& p, cudaStream_t stream) {
    if (p.call.beta) launch_again(maps, p, stream);
    else launch_states(Sum::again, maps, p, stream);
}
void finish(const Maps& maps, const Part& p, cudaStream_t stream) {
    if (p.call.beta) launch_finish(maps, p, stream);
    else launch_finish_linear(maps, p, stream);
}

// Splits as maps of the state, and the states between them: then each is walked over as a head by itself would be.
void run_maps(const Maps& maps, Part p, cudaStream_t stream) {
    if (p.call.beta) launch_forward_maps(maps, p, stream);
    else launch_states(Sum::forward_map, maps, p, stream);
    p.beside = true;
    if (p.call.beta) launch_backward_maps(maps, p, stream);
    else launch_states(Sum::backward_map, maps, p, stream);
    p.beside = false;
    launch_scan(p, stream);
}

// All chunks as one part: the sweep over E needs nothing of that over S, and runs beside it.
void run_whole(const Maps& maps, Part p, cudaStream_t stream) {
    prepare(maps, p, stream);
    if (p.splits > 1) run_maps(maps, p, stream);
    sweep_forward(maps, p, stream);
    p.beside = true;
    sweep_backward(maps, p, stream);
    p.beside = false;
    finish(maps, p, stream);
}

// The last chunks of the rounds in which the sweep over S goes through all of them. What a round needs is prepared
// beside the sweep over the round before it. Few sweeps leave most of the device to that: a short first round is enough
// for them. A short text beside others, which keep the device busy anyway, needs none, nor do gates alone, which are
// all that is prepared without the delta rule.
std::vector<int64_t> rounds_of(const Plan& plan) {
    if (!plan.call.beta || plan.beside_others()) return {plan.chunks};
    const bool is_few = 3 * plan.call.all_heads * plan.blocks <= device().multiprocessors;
    std::vector<int64_t> ends = is_few ? std::vector<int64_t>{1, 4, 8} : std::vector<int64_t>{2, 4, 6, 8};  // eighths
    for (int64_t& end : ends) end = (plan.chunks * end + 7) / 8;
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    return ends;
}

// What needs no gradient of the state.
void sweep_forwards(const Maps& maps, const Plan& plan, const Part& all, cudaStream_t stream) {
    if (plan.splits > 1) {
        const Part p = chunks_of(plan, all, 0, plan.chunks);
        prepare(maps, p, stream);
        run_maps(maps, p, stream);
        return sweep_forward(maps, p, stream);
    }
    const std::vector<int64_t> ends = rounds_of(plan);
    prepare(maps, chunks_of(plan, all, 0, ends[0]), stream);
    for (std::size_t i = 0; i < ends.size(); ++i) {
        const int64_t first = i > 0 ? ends[i - 1] : 0;
        sweep_forward(maps, chunks_of(plan, all, first, ends[i] - first), stream);
        if (i + 1 == ends.size()) break;
        Part p = chunks_of(plan, all, ends[i], ends[i + 1] - ends[i]);
        p.beside = true;
        prepare(maps, p, stream);
    }
}

void run_parts(const Maps& maps, const Plan& plan, const Part& all, unsigned char* workspace, cudaStream_t stream) {
    sweep_forwards(maps, plan, all, stream);
    const auto finish_part = [&](int64_t i, bool is_beside) {
        Part p = part_of(plan, all, workspace, i);
        p.beside = is_beside;
        finish(maps, p, stream);
    };
    // A part is finished beside the sweeps over the one before it. Sweeps over S and over E that take most of the
    // device would leave no room for it, and begin after it, on the multiprocessors that its blocks leave; fewer ones
    // begin first.
    const bool finish_first = plan.many_sweeps() && !plan.keeps_in_gradients;
    for (int64_t i = plan.parts - 1; i >= 0; --i) {
        const bool more = i + 1 < plan.parts;
        if (more && finish_first) finish_part(i + 1, false);
        Part p = part_of(plan, all, workspace, i);
        // Of the sweep over S that over the last part needs nothing where all states are kept.
        p.beside = more ? finish_first : plan.keeps_in_gradients;
        sweep_backward(maps, p, stream);
        p.beside = true;
        if (!plan.keeps_in_gradients) sweep_again(maps, p, stream);
        if (more && !finish_first) finish_part(i + 1, true);
    }
    finish_part(0, false);
}

}  // namespace

bool gated_heads_gradient_takes(const GatedGradArgs& a) {
    const GatedArgs& in = a.in;
    const auto reaches = [&](const void* data, Strides s) { return tma_reaches(data, in.type, s); };
    // A gradient of its own for each head.
    const auto own = [&](Strides s) { return in.H == 1 || s.head != 0; };
    return in.type == Type::BFloat16 && in.gates <= 1 && in.group == 1 && in.dk <= 128 && in.dv <= 128 &&
           device().hopper() && reaches(in.q, in.q_stride) && reaches(in.k, in.k_stride) &&
           reaches(in.v, in.v_stride) && reaches(a.dO, in.o_stride) && reaches(a.dq, a.of_dq()) &&
           reaches(a.dk, a.of_dk()) && reaches(a.dv, in.v_stride) && own(a.of_dq()) && own(a.of_dk()) &&
           own(in.v_stride);
}

bool gated_heads_gradient_adds(const GatedGradArgs& a) {
    const GatedArgs& in = a.in;
    const auto whole = [&](const void* x, Strides s) { return gated::operand(x, in.type, s, in.dk).whole; };
    return gated_heads_gradient_takes(a) && in.H > 1 && in.q_stride.head == 0 && in.k_stride.head == 0 &&
           whole(a.dq, a.of_dq()) && whole(a.dk, a.of_dk());
}

std::size_t gated_heads_gradient_workspace(const GatedGradArgs& a) {
    const Plan plan(a);
    return plan.empty() ? 0 : plan.bytes;
}

void gated_heads_gradient(const GatedGradArgs& a, cudaStream_t stream) {
    const GatedArgs& in = a.in;
    const Plan plan(a);
    if (plan.empty()) return;
    gated::check_workspace(in.workspace, plan.bytes, name);
    unsigned char* const at = static_cast<unsigned char*>(in.workspace.data);
    const auto floats = [&](std::size_t where) { return reinterpret_cast<float*>(at + where); };
    check(cudaMemsetAsync(at + plan.not_finite, 0, 4, stream), "clearing a flag");
    const float* const given = gradient::kept_dstate(a, floats(plan.given), stream);
    const Maps maps = maps_of(a, plan, at);
    Part all{};
    all.call = plan.call;
    all.dq = gated::operand(a.dq, in.type, a.of_dq(), in.dk);
    all.dk = gated::operand(a.dk, in.type, a.of_dk(), in.dk);
    all.dv = gated::operand(a.dv, in.type, in.v_stride, in.dv);
    all.dq_sum = gated::operand(a.dq_sum, in.type, a.sum_stride, in.dk);
    all.dk_sum = gated::operand(a.dk_sum, in.type, a.sum_stride, in.dk);
    all.over_heads = a.dq_sum ? plan.over_heads() : HeadSums::none;
    all.split_chunks = static_cast<int>(plan.chunks), all.splits = static_cast<int>(plan.splits),
    all.blocks = plan.blocks;
    all.S_behind = floats(plan.S_behind), all.E_before = floats(plan.E_before), all.A = floats(plan.A);
    const auto step = [](Strides s) { return s.head == 0 ? 0 : 1; };
    all.q_step = step(in.q_stride), all.k_step = step(in.k_stride), all.v_step = step(in.v_stride),
    all.dO_step = step(in.o_stride), all.U_step = in.beta ? 1 : all.v_step;
    all.P_column = plan.P_in_dk() ? C : 0;
    all.gates = at + plan.gates;
    if (plan.keeps_in_gradients) all.last_chunks = at + plan.last_chunks;
    if (!plan.in_dv) all.boundaries = reinterpret_cast<std::uint32_t*>(at + plan.boundaries);
    all.every = static_cast<int>(plan.each);
    all.between = floats(plan.between);
    all.after = a.after;
    all.gate_step = a.gate_step > 0 ? a.gate_step : in.N;
    all.dg = a.dg, all.dbeta = a.dbeta, all.dstate_in = given, all.dstate_out = a.dstate;
    all.not_finite = reinterpret_cast<int*>(at + plan.not_finite);
    if (plan.parts == 1) run_whole(maps, part_of(plan, all, at, 0), stream);
    else run_parts(maps, plan, all, at, stream);
    gradient::Walks walks{};
    walks.call = plan.call;
    walks.dO = gated::operand(a.dO, in.type, in.o_stride, in.dv);
    walks.dq = all.dq, walks.dk = all.dk, walks.dv = all.dv;
    walks.dg = a.dg, walks.dbeta = a.dbeta, walks.gate_step = all.gate_step;
    walks.dstate_in = given, walks.dstate_out = a.dstate;
    walks.not_finite = all.not_finite;
    walks.each = plan.segment, walks.segments = plan.segments;
    walks.blocks = std::min(plan.call.all_heads,
                            static_cast<int64_t>(plan.bytes - plan.walks) / std::max<int64_t>(plan.walk_bytes(), 1));
    walks.states = floats(plan.walks);
    gradient::launch_walks(walks, stream);
    if (a.dq_sum) launch_add(all, stream);
}

}  // namespace causeway::gpu
