#include "gpu/gradient/gated_hopper.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "gpu/base/device.hpp"
#include "gpu/base/error.hpp"
#include "gpu/gradient/gated_hopper/part.hpp"
#include "gpu/gradient/parts.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;
using namespace channels;

constexpr const char* name = "gated_gradient";

// Tiles of a part take at most so many bytes, as far as it has min_chunks of each head, with which the state before it
// has room in its rows of dv; the parts of the pass that goes
// forwards alone, whose tiles are fewer, have at most enough_chunks of all heads (docs/kernels/gated.md).
constexpr int64_t part_bytes = 59'000'000, min_chunks = 4, enough_chunks = 1024;

// Bytes of the matrices of a chunk of one batch-head.
struct ChunkBytes {
    int64_t keys, queries, values, inverse, state, updates;

    ChunkBytes(const gated::Call& call, int DK, int DV)
        : keys(KeyTiles(DK, call.beta != nullptr).bytes),
          queries(call.group * int64_t{QueryTiles(DK).bytes}),
          values(call.beta || !call.v.whole ? DV / sweep_columns * int64_t{value_bytes} : 0),
          inverse(call.beta ? inverse_bytes : 0),
          state(tile_bytes(DK, DV)),
          updates(tile_bytes(C, DV)) {}
};

// What lies where in the workspace. Where the widths are those of tiles, S lies in dq and dk, U in dv, and without the
// delta rule dU there (`in_gradients`), for all chunks but one that the end of the tokens cuts: then the states of all
// chunks are kept by the pass that goes forwards. Otherwise it leaves the states before parts.
struct Plan {
    gated::Call call;
    int DK, DV;
    ChunkBytes chunk;
    bool in_gradients;
    gradient::Parts forward, parts;
    int64_t state = 0;
    bool in_dv;  // the states before parts lie there
    std::size_t bytes = 0;
    std::size_t not_finite, given, walks;  // `walks`: where what follows lies, which the walk token by token takes anew
    std::size_t boundaries = 0, between, cut_states = 0, cut_updates = 0;
    std::size_t forward_keys, forward_values;
    std::size_t keys, queries, values, inverse, states, after, dU;
    int64_t segment, segments;  // of that walk

    explicit Plan(const GatedGradArgs& a)
        : call(gated::call_of(a.in)),
          DK(padded_rows(call.dk)),
          DV(padded_columns(call.dv)),
          chunk(call, DK, DV),
          in_gradients(call.dk == DK && call.dv == DV && std::has_single_bit(static_cast<unsigned>(DV)) &&
                       lie_in_pieces(a)),
          state(call.all_heads * call.dk * call.dv) {
        if (!empty()) plan_parts();
        in_dv = !in_gradients && a.states_fit_in_dv(parts.each);
        not_finite = take(4);
        given = take(a.dstate_in_place() ? state * 4 : 0);
        walks = bytes;
        boundaries = take(in_gradients || in_dv ? 0 : parts.count * state * 4);
        between = take(state * 4);
        const int64_t cut = in_gradients && call.N % C > 0 ? call.all_heads : 0;
        cut_states = take(cut * chunk.state), cut_updates = take(cut * chunk.updates);
        const std::size_t tiles = bytes;
        const int64_t forward_chunks = call.all_heads * forward.each / C, chunks = call.all_heads * parts.each / C;
        forward_keys = take(forward_chunks * chunk.keys), forward_values = take(forward_chunks * chunk.values);
        const std::size_t forward_end = bytes;
        bytes = tiles;
        keys = take(chunks * chunk.keys);
        queries = take(chunks * chunk.queries);
        values = take(in_gradients ? 0 : chunks * chunk.values);
        inverse = take(chunks * chunk.inverse);
        states = take(in_gradients ? 0 : chunks * chunk.state);
        after = take(chunks * chunk.state);
        dU = take(dU_in_dv() ? 0 : chunks * chunk.updates);
        segment = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(call.N))));
        segments = segment > 0 ? (call.N + segment - 1) / segment : 0;
        bytes = std::max({bytes, forward_end, walks + static_cast<std::size_t>(walk_bytes())});
    }
    bool dU_in_dv() const { return in_gradients && !call.beta; }
    // Of one batch-head.
    int64_t walk_bytes() const { return (segments + segment) * call.dk * call.dv * 4; }
    bool empty() const { return call.N == 0 || call.all_heads == 0; }

private:
    std::size_t take(int64_t n) {
        const std::size_t at = bytes;
        bytes += static_cast<std::size_t>((n + 255) / 256 * 256);
        return at;
    }
    void plan_parts() {
        int64_t of_chunk = chunk.keys + chunk.queries + chunk.inverse + chunk.state;
        if (!dU_in_dv()) of_chunk += chunk.updates;
        if (!in_gradients) of_chunk += chunk.values + chunk.state;
        parts =
            gradient::parts_of(call.N, C, call.all_heads, std::max(min_chunks, part_bytes / of_chunk / call.all_heads),
                               std::max(device().multiprocessors, 1), min_chunks);
        const int64_t all = (call.N + C - 1) / C;
        forward = in_gradients
                      ? gradient::Parts(call.N, C, std::min(all, std::max(min_chunks, enough_chunks / call.all_heads)))
                      : parts;
    }
    // Whether rows of the gradients, which the copy engine writes, are pieces of 16 bytes.
    static bool lie_in_pieces(const GatedGradArgs& a) {
        const GatedArgs& in = a.in;
        return gated::operand(a.dq, in.type, a.of_dq(), in.dk).whole &&
               gated::operand(a.dk, in.type, a.of_dk(), in.dk).whole &&
               gated::operand(a.dv, in.type, in.v_stride, in.dv).whole;
    }
};

// The plan's places in a workspace, and the call's gradients.
struct Pass {
    const GatedGradArgs& a;
    const Plan& plan;
    unsigned char* at;
    gated::Operand dO, dq, dk, dv;

    Pass(const GatedGradArgs& args, const Plan& whole)
        : a(args),
          plan(whole),
          at(static_cast<unsigned char*>(a.in.workspace.data)),
          dO(gated::operand(a.dO, a.in.type, a.in.o_stride, a.in.dv)),
          dq(gated::operand(a.dq, a.in.type, a.of_dq(), a.in.dk)),
          dk(gated::operand(a.dk, a.in.type, a.of_dk(), a.in.dk)),
          dv(gated::operand(a.dv, a.in.type, a.in.v_stride, a.in.dv)) {}

    float* floats(std::size_t where) const { return reinterpret_cast<float*>(at + where); }
    // The states before part i, of which the pass that goes forwards leaves one where it keeps those of all chunks.
    gradient::States before(const gradient::Parts& parts, int64_t i) const {
        const gradient::StatesBefore states{a, parts, plan.in_dv ? nullptr : floats(plan.boundaries),
                                            floats(plan.between)};
        return states(plan.in_gradients && i > 0 ? parts.count - 1 : i);
    }
    Part part(const gradient::Parts& parts, int64_t i) const {
        Part p{};
        p.call = plan.call;
        p.first = i * parts.each, p.tokens = parts.tokens(i);
        p.chunks = static_cast<int>(parts.chunks(i));
        p.DK = plan.DK, p.DV = plan.DV;
        const gradient::States states = before(parts, i);
        p.state_in = states.data, p.state_in_step = states.step;
        p.least_betas = p.call.beta != nullptr;
        p.not_finite = reinterpret_cast<int*>(at + plan.not_finite);
        return p;
    }
    // One that goes forwards alone, with the state after it where there is a next one.
    Part forward_part(int64_t i) const {
        Part p = part(plan.forward, i);
        p.call.group = 0;
        p.keys = at + plan.forward_keys;
        if (plan.chunk.values > 0) p.values = at + plan.forward_values;
        if (plan.in_gradients) keep(p);
        if (i + 1 < plan.forward.count) {
            const gradient::States next = before(plan.forward, i + 1);
            p.state_out = next.data, p.state_out_step = next.step;
        }
        return p;
    }
    // One that goes backwards, before its sweep forwards if that has still to be.
    Part backward_part(int64_t i) const {
        Part p = part(plan.parts, i);
        p.keys = at + plan.keys, p.queries = at + plan.queries;
        if (!plan.in_gradients && plan.chunk.values > 0) p.values = at + plan.values;
        if (p.call.beta) p.inverse = at + plan.inverse;
        keep(p);
        return p;
    }
    void keep(Part& p) const {
        if (!plan.in_gradients) {
            p.states = apart(plan.states, plan.chunk.state);
            if (p.call.beta) p.updates = apart(plan.values, plan.chunk.updates);
            return;
        }
        gated::Operand last_dq = dq;  // of the heads of queries of a head of keys, the one that is written last
        last_dq.data += (plan.call.group - 1) * dq.head, last_dq.head *= plan.call.group;
        p.states = in_rows(p, plan.DK, last_dq, dk, plan.cut_states, plan.chunk.state);
        if (p.call.beta) p.updates = in_rows(p, plan.DV, dv, dv, plan.cut_updates, plan.chunk.updates);
    }
    KeptTiles dU(const Part& p) const {
        return plan.dU_in_dv() ? in_rows(p, plan.DV, dv, dv, plan.cut_updates, plan.chunk.updates)
                               : apart(plan.dU, plan.chunk.updates);
    }
    KeptTiles apart(std::size_t where, int64_t bytes) const {
        KeptTiles kept{};
        kept.row_bits = 8, kept.apart = at + where, kept.bytes = static_cast<std::uint32_t>(bytes);
        return kept;
    }
    // In rows of `first`, then of `second`, of so many columns.
    KeptTiles in_rows(const Part& p, int columns, const gated::Operand& first, const gated::Operand& second,
                      std::size_t cut, int64_t bytes) const {
        KeptTiles kept = apart(cut, bytes);
        const auto rows = [&](const gated::Operand& x) {
            return KeptTiles::Rows{reinterpret_cast<unsigned char*>(x.data) + p.first * x.token, x.batch, x.head,
                                   x.token};
        };
        kept.rows[0] = rows(first), kept.rows[1] = rows(second);
        kept.row_bits = std::bit_width(static_cast<unsigned>(columns));
        kept.whole = static_cast<int>(p.tokens / C);
        return kept;
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
    const Pass pass(a, plan);
    check(cudaMemsetAsync(pass.at + plan.not_finite, 0, 4, stream), "clearing a flag");
    const float* const given = gradient::kept_dstate(a, pass.floats(plan.given), stream);
    for (int64_t i = 0; i < plan.forward.count - (plan.in_gradients ? 0 : 1); ++i) {
        const Part p = pass.forward_part(i);
        launch_prepare(p, stream, i > 0);
        launch_sweep(p, stream);
    }
    gradient::Walks walks{};
    walks.call = plan.call;
    walks.dO = pass.dO, walks.dq = pass.dq, walks.dk = pass.dk, walks.dv = pass.dv;
    walks.dg = a.dg, walks.dbeta = a.dbeta, walks.gate_step = in.N;
    walks.dstate_in = given, walks.dstate_out = a.dstate;
    walks.not_finite = reinterpret_cast<const int*>(pass.at + plan.not_finite);
    walks.each = plan.segment, walks.segments = plan.segments;
    walks.blocks = std::min(plan.call.all_heads,
                            static_cast<int64_t>(plan.bytes - plan.walks) / std::max<int64_t>(plan.walk_bytes(), 1));
    walks.states = pass.floats(plan.walks);
    float* between = pass.floats(plan.between);
    for (int64_t i = plan.parts.count - 1; i >= 0; --i) {
        gradient::BackwardChunks b{};
        b.part = pass.backward_part(i);
        const bool after_finishing = i + 1 < plan.parts.count;
        b.part.tiles_free = after_finishing && plan.in_gradients;
        launch_prepare(b.part, stream, after_finishing);
        if (!plan.in_gradients) {
            Part forward = b.part;
            forward.call.group = 0;
            launch_sweep(forward, stream);
        }
        b.dO = walks.dO, b.dq = walks.dq, b.dk = walks.dk, b.dv = walks.dv, b.dg = a.dg, b.dbeta = a.dbeta;
        b.dstate_in = i + 1 < plan.parts.count ? between : given;
        b.dstate_out = i > 0 ? between : a.dstate;
        b.after = pass.apart(plan.after, plan.chunk.state), b.dU = pass.dU(b.part);
        b.states_before = plan.in_gradients;
        gradient::launch_backward_chunks(b, stream);
        gradient::launch_finish_chunks(b, stream);
    }
    gradient::launch_walks(walks, stream);
}

}  // namespace causeway::gpu
