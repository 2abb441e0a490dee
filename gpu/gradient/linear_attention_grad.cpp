#include "gpu/gradient/linear_attention_grad.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/gradient/check.hpp"
#include "gpu/base/error.hpp"
#include "gpu/base/fork.hpp"
#include "gpu/calls/packed.hpp"
#include "gpu/gated/registry.hpp"
#include "gpu/gradient/gated.hpp"
#include "gpu/gradient/quotient.hpp"
#include "gpu/tensor/elementwise.hpp"
#include "gpu/tensor/places.hpp"

namespace causeway::gpu {

namespace gated {

Tensor as_given(const Tensor& grad, const Tensor& given, cudaStream_t stream) {
    if (grad.size() == given.size()) return grad.reshape(given.shape()).to(given.dtype(), stream);
    const Shape& s = grad.shape();
    const Tensor sum(DType::f32, given.shape(), stream);
    sum_heads(grad.data(), sum.data(), Type::Float32, s[0], s[1], s[2] * s[3], stream);
    return sum.to(given.dtype(), stream);
}

void check_gradients(const causeway::gated::Sizes& n, const Tensor& v, const Tensor& dO,
                     const std::optional<Tensor>& dstate) {
    if (dO.shape() != n.output) fail("dO: ", dO.shape().text(), ", expected ", n.output.text(), " like the output");
    if (dO.dtype() != n.dtype) fail("dO: ", name(dO.dtype()), ", expected ", name(n.dtype), " like q");
    if (dstate && !causeway::gated::is_state_shape(dstate->shape(), v.form(), n)) {
        fail("dstate: ", dstate->shape().text(), ", expected ", n.state_shape.text(), " like the final state");
    }
}

Tensor last_gradient(const causeway::gated::Sizes& n, const std::optional<Tensor>& dstate, cudaStream_t stream) {
    return dstate ? dstate->own(DType::f32, stream).reshape(n.state_shape)
                  : Tensor::zeros(DType::f32, n.state_shape, stream);
}

std::optional<Tensor> states_before(const causeway::gated::Sizes& n, const std::optional<Tensor>& state,
                                    cudaStream_t stream) {
    if (!state) {
        if (!n.slots.empty()) fail("state_indices: given, but no state, expected the pool of their slots as it");
        return {};
    }
    if (!n.slots.empty()) return from_slots(*state, n.slots, stream).to(DType::f32, stream);
    return state->to(DType::f32, stream).reshape(n.state_shape);
}

}  // namespace gated

namespace {

// sums: of each `shared` consecutive heads of `each` one.
void add_shared(const Tensor& each, const Tensor& sums, Index shared, cudaStream_t stream) {
    const Shape& s = each.shape();
    sum_heads(each.data(), sums.data(), each.type(), s[0] / shared, shared, s[1] * s[2], stream);
}

// The arguments of a piece, but for a workspace.
GatedGradArgs args_of(const GatedGradArgs& all, const gated::Runs& runs, const Piece& piece) {
    GatedGradArgs a = all;
    a.in = runs.args_of(all.in, piece);
    const auto from = [&](const void* x, Strides s) { return from_token(x, a.in.type, s, piece.first); };
    a.dO = from(a.dO, a.in.o_stride);
    a.dq = from(a.dq, a.of_dq()), a.dk = from(a.dk, a.of_dk()), a.dv = from(a.dv, a.in.v_stride);
    if (a.dq_sum) a.dq_sum = from(a.dq_sum, a.sum_stride), a.dk_sum = from(a.dk_sum, a.sum_stride);
    a.alone = runs.pieces.list.size() == 1;
    if (a.dg) a.dg += runs.gates_at(piece) * a.in.gates;
    if (a.dbeta) a.dbeta += runs.gates_at(piece);
    if (runs.gates == gated::PieceGates::in_place) a.gate_step = all.in.N;
    const Index first_state = piece.sequence * runs.heads * a.in.dk * a.in.dv;
    if (a.dstate_in) a.dstate_in += first_state;
    a.dstate += first_state;
    return a;
}

// What a stream has to do, and the workspace that its pieces take turns with.
struct Queue {
    Index tokens = 0;
    std::size_t bytes = 0;
};

// Queues all pieces, sequences that know nothing of each other, on a few streams: the longest first, each where the
// fewest tokens are queued. A short one leaves most of the GPU to others.
void run_all(const GatedGradArgs& all, const gated::Runs& runs, cudaStream_t stream) {
    std::vector<Piece> pieces = runs.pieces.list;
    std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& x, const Piece& y) { return x.n > y.n; });
    constexpr std::size_t most_streams = 4;
    std::vector<Queue> queues(std::min(pieces.size(), most_streams));
    std::vector<std::pair<GatedGradArgs, std::size_t>> calls;  // and whose queue each is in
    for (const Piece& piece : pieces) {
        const auto least = std::min_element(queues.begin(), queues.end(),
                                            [](const Queue& x, const Queue& y) { return x.tokens < y.tokens; });
        calls.emplace_back(args_of(all, runs, piece), least - queues.begin());
        least->tokens += piece.n;
        least->bytes = std::max(least->bytes, gated_gradient_workspace(calls.back().first));
    }
    const auto run = [&](auto&& stream_of) {
        std::vector<Buffer> workspaces;
        for (std::size_t i = 0; i < queues.size(); ++i) workspaces.emplace_back(queues[i].bytes, stream_of(i));
        for (auto& [a, queue] : calls) {
            a.in.workspace = {workspaces[queue].data(), workspaces[queue].bytes()};
            gated_gradient(a, stream_of(queue));
        }
    };
    if (queues.size() < 2) return run([&](std::size_t) { return stream; });
    Fork fork(stream, queues.size());
    run([&](std::size_t i) { return fork[i]; });
    fork.join();
}

// Of a call that makes its gates or norms its outputs.
LinearGradient gradient_around(const gated::Call& call, const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& dO, const LinearOptions& o, const std::optional<Tensor>& dstate) {
    const LinearOptions rule = calls::without_norm(o.A_log ? gated::gates_made(call, o) : o);
    NormGradient norm{dO, {}, {}};
    if (calls::has_norm(o)) norm = rms_norm_grad(linear_attention(q, k, v, rule).O, dO, gated::options_of_norm(o));
    LinearGradient out = linear_attention_grad(q, k, v, norm.dx, rule, dstate);
    out.dnorm_weight = norm.dweight, out.dnorm_gate = norm.dgate;
    if (!o.A_log) return out;
    const Tensor& a = call.projection;
    const DecayGateGradient gates = decay_gate_grad(a.to(DType::f32, o.stream), *o.A_log,
                                                    out.dlog_decay->reshape(a.shape()), gated::options_of_gates(o));
    out.dlog_decay = gates.da.reshape(o.log_decay->shape()).to(o.log_decay->dtype(), o.stream);
    out.dA_log = gates.dA_log, out.ddt_bias = gates.ddt_bias;
    return out;
}

}  // namespace

LinearGradient linear_attention_grad(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                     const LinearOptions& o, const std::optional<Tensor>& dstate) {
    check_gradient(o.mode);
    refuse_prefix(o.deterministic, "the gradient on the GPU");
    const gated::Call call = gated::check(q, k, v, o);
    const auto& n = call.sizes;
    gated::check_gradients(n, v, dO, dstate);
    causeway::gradient::check_no_states(o);
    if (o.A_log || calls::has_norm(o)) return gradient_around(call, q, k, v, dO, o, dstate);
    if (o.qk_l2norm) {
        const gated::UnitRows unit = gated::unit_rows(q, k, o);
        LinearGradient out = linear_attention_grad(unit.q, unit.k, v, dO, calls::without_l2norm(o), dstate);
        gated::gradient_of_unit_rows(q, k, out, o);
        return out;
    }
    LinearGradient out{Tensor(q.dtype(), q.shape(), o.stream),
                       Tensor(k.dtype(), k.shape(), o.stream),
                       Tensor(v.dtype(), v.shape(), o.stream),
                       {},
                       {},
                       {},
                       {},
                       {},
                       {},
                       {}};
    // Sequences without tokens are no pieces: what arrives at their states leaves them.
    const bool has_empty =
        n.N == 0 || std::adjacent_find(o.cu_seqlens.begin(), o.cu_seqlens.end()) != o.cu_seqlens.end();
    out.dstate = has_empty ? gated::last_gradient(n, dstate, o.stream) : Tensor(DType::f32, n.state_shape, o.stream);
    std::optional<Tensor> last;
    if (dstate) last = dstate->to(DType::f32, o.stream).reshape(n.state_shape);
    const std::optional<Tensor> state = gated::states_before(n, o.state, o.stream);
    // Every head of v gives keys and queries that it shares a gradient of its own; they are added up.
    const Index every_head = n.batch * n.heads * n.group;
    const Tensor dq = n.shared_queries > 1 ? Tensor(q.dtype(), {every_head, n.N, n.dk}, o.stream) : out.dq,
                 dk = n.shared_keys > 1 ? Tensor(k.dtype(), {n.batch * n.heads, n.N, n.dk}, o.stream) : out.dk;
    const auto like_gate = [&](bool there, Index width) {
        return there ? Tensor(DType::f32, {n.batch, n.heads, n.N, width}, o.stream) : Tensor();
    };
    bool is_added = false;
    const Tensor dg = like_gate(call.args.g, n.gates), dbeta = like_gate(call.args.beta, 1);
    gated::each_part(call, o.stream, [&](const gated::Call& part, const SomeHeads& some) {
        const bool all = some.together == some.period;
        const auto of_part = [&](const Tensor& x) { return all ? x : from_heads(x, some, o.stream); };
        // The first head of the part in a gradient with a head for each of v.
        const auto first = [&](const Tensor& x, Index width) {
            return x.as<char>() + some.first * n.N * width * bytes_of(x.type());
        };
        GatedGradArgs a;
        a.in = part.args;
        const Tensor own_state = state ? of_part(*state) : Tensor(), own_last = last ? of_part(*last) : Tensor();
        const Tensor own_dstate =
            all || has_empty ? of_part(out.dstate) : Tensor(DType::f32, part.sizes.state_shape, o.stream);
        a.in.state = state ? own_state.as<float>() : nullptr;
        a.dO = first(dO, n.dv), a.dv = first(out.dv, n.dv);
        a.dq = first(dq, n.dk), a.dk = first(dk, n.dk);
        const Strides every = contiguous(a.in.H * a.in.group, n.N, a.in.dk);
        const auto of_every = [&](Index heads) {
            return all ? contiguous(heads, n.N, a.in.dk) : Strides{some.period * every.head, every.head, every.token};
        };
        if (n.shared_queries > 1) a.dq_stride = of_every(a.in.H * a.in.group);
        if (n.shared_keys > 1) a.dk_stride = of_every(a.in.H);
        a.dstate_in = last ? own_last.as<float>() : nullptr, a.dstate = own_dstate.as<float>();
        const Tensor own_dg = a.in.g ? of_part(dg) : Tensor(), own_dbeta = a.in.beta ? of_part(dbeta) : Tensor();
        if (a.in.g) a.dg = own_dg.as<float>();
        if (a.in.beta) a.dbeta = own_dbeta.as<float>();
        if (all && n.shared_queries > 1 && n.shared_keys > 1 && gated_gradient_adds(a)) {
            is_added = true;
            a.dq_sum = out.dq.data(), a.dk_sum = out.dk.data();
            a.sum_stride = contiguous(1, n.N, a.in.dk);
        }
        const auto lie = gated_gradient_takes_gate_step(a) ? gated::PieceGates::in_place : gated::PieceGates::together;
        const gated::Runs runs(part, o.cu_seqlens, 0, o.stream, lie);
        run_all(a, runs, o.stream);
        const auto hand_back = [&](const Tensor& own, const Tensor& whole, Index width) {
            const bool cut = runs.pieces.list.size() > 1 && lie == gated::PieceGates::together;
            const Tensor x = cut ? by_heads(own, runs.pieces.cuts, runs.heads, width, o.stream) : own;
            if (cut || !all) to_heads(x, some, whole, o.stream);
        };
        if (a.in.g) hand_back(own_dg, dg, n.gates);
        if (a.in.beta) hand_back(own_dbeta, dbeta, 1);
        if (!all) to_heads(own_dstate, some, out.dstate, o.stream);
    });
    if (n.shared_queries > 1 && !is_added) add_shared(dq, out.dq, n.shared_queries, o.stream);
    if (n.shared_keys > 1 && !is_added) add_shared(dk, out.dk, n.shared_keys, o.stream);
    if (call.args.g) out.dlog_decay = gated::as_given(dg, *o.log_decay, o.stream);
    if (call.args.beta) out.dbeta = gated::as_given(dbeta, *o.beta, o.stream);
    if (!n.slots.empty()) out.dstate = gradient_of_slots(out.dstate, n.slots, o.state->shape()[0], o.stream);
    return out;
}

}  // namespace causeway::gpu
