#include "gpu/calls/linear_attention.hpp"

#include <algorithm>
#include <numeric>

#include "core/base/text.hpp"
#include "core/gated/around.hpp"
#include "core/gated/registry.hpp"
#include "core/gated/step.hpp"
#include "gpu/around/decay_gate.hpp"
#include "gpu/base/copy.hpp"
#include "gpu/base/error.hpp"
#include "gpu/exact/causal_linear_attention.hpp"
#include "gpu/gated/registry.hpp"
#include "gpu/gated/step.hpp"
#include "gpu/tensor/elementwise.hpp"
#include "gpu/tensor/places.hpp"

namespace causeway::gpu {
namespace gated {
namespace {

// A gate [batch, heads or 1, N(, width)] in Float32 as [batch, heads, N, width].
Tensor each_head_of(const Tensor& given, const Shape& full, cudaStream_t stream) {
    const Tensor a = given.to(DType::f32, stream);
    if (a.size() == full.size()) return a.reshape(full);
    Tensor out(DType::f32, full, stream);
    const Index row = full[2] * full[3];
    const auto bytes = static_cast<std::size_t>(row) * sizeof(float);
    for (Index h = 0; h < full[1]; ++h)
        copy_rows({out.as<float>() + h * row, static_cast<std::size_t>(full[1]) * bytes, a.as<float>(), bytes, bytes,
                   static_cast<std::size_t>(full[0])},
                  stream, "copying gates");
    return out;
}

// Strides, and which heads share keys or queries: consecutive heads of v that do are the heads of a batch entry of
// their own, for which a step from head to head of the keys or queries is none. Not for heads that share both, in
// different numbers: those are computed part by part.
void set_heads(GatedArgs& a, const causeway::gated::Sizes& n) {
    const Index shared = std::max(n.shared_keys, n.shared_queries);
    a.B = n.batch, a.H = n.heads;
    if (shared > 1) a.B *= n.heads / shared, a.H = shared;
    a.v_stride = contiguous(a.H, n.N, a.dv), a.o_stride = contiguous(a.H * a.group, n.N, a.dv);
    const auto of_inputs = [&](Index heads, Index sharing) {
        return sharing > 1 ? Strides{n.N * a.dk, 0, a.dk} : contiguous(heads, n.N, a.dk);
    };
    a.q_stride = of_inputs(a.H * a.group, n.shared_queries), a.k_stride = of_inputs(a.H, n.shared_keys);
}

// The projection that gates are to be made of. Where one head serves all they are not made within a kernel.
void set_projection(Call& c, const Tensor& v, const LinearOptions& o) {
    const auto& n = c.sizes;
    c.projection = o.log_decay->reshape(causeway::gated::projection_shape(o.log_decay->shape(), v.shape(), n));
    c.A_log = o.A_log->to(DType::f32, o.stream);
    if (o.dt_bias) c.dt_bias = o.dt_bias->to(DType::f32, o.stream);
    c.args.gates = static_cast<int>(n.gates);
    Projection& p = c.args.projection;
    p.a = c.projection.data(), p.type = c.projection.type();
    p.A_log = c.A_log.as<float>(), p.bias = o.dt_bias ? c.dt_bias.as<float>() : nullptr;
    p.heads = c.projection.shape()[1];
    p.lower_bound = static_cast<float>(o.lower_bound.value_or(0));
}

// Whether the kernels of the call make its gates: one launch of each, of all heads together.
bool makes_gates_within(const Call& c, const LinearOptions& o) {
    const auto& n = c.sizes;
    const SomeHeads some = heads_together(n);
    const bool packed = !n.sequences.empty(), prefix = keeps_prefix(o);
    if (some.together != some.period || c.args.projection.heads != n.heads || o.checkpoint_every > 0) return false;
    return makes_gates(o.mode, c.args, prefix) && (!packed || gated_form(o.mode, c.args, prefix).run_packed);
}

void check_made_gates(const Call& c, const LinearOptions& o) {
    const Projection& p = c.args.projection;
    const auto& n = c.sizes;
    const around::GateArgs gates{p.a, p.type, p.A_log, p.bias, n.batch, n.heads, n.N, n.gates, p.lower_bound};
    const Buffer found(sizeof(std::int64_t), o.stream);
    const Index at = around::first_gate_not_a_number(gates, found.as<std::int64_t>(), o.stream);
    if (at < gates.size()) fail("log_decay: NaN in gate ", at + 1, " that is made of it, expected numbers");
}

}  // namespace

NormOptions options_of_norm(const LinearOptions& o) {
    auto options = calls::norm_of<NormOptions>(o);
    options.stream = o.stream;
    return options;
}
DecayGateOptions options_of_gates(const LinearOptions& o) {
    auto options = calls::gates_of<DecayGateOptions>(o);
    options.stream = o.stream;
    return options;
}

LinearOptions gates_made(const Call& c, const LinearOptions& o) {
    const Tensor g = decay_gate_in_float(c.projection, *o.A_log, options_of_gates(o));
    return calls::with_gates(o, g.reshape(o.log_decay->shape()));
}

UnitRows unit_rows(const Tensor& q, const Tensor& k, const LinearOptions& o) {
    LengthOptions lengths;
    lengths.stream = o.stream;
    return {l2norm(q, lengths), l2norm(k, lengths)};
}

namespace {

// For checks that compare addresses: nothing is read there.
std::optional<causeway::Tensor> view_of(const std::optional<Tensor>& x) {
    if (!x) return {};
    return causeway::Tensor::view(x->dtype(), x->shape(), x->data());
}

}  // namespace

bool keeps_prefix(const LinearOptions& o) { return o.deterministic == "prefix"; }

causeway::LinearOptions forms_of(const LinearOptions& o) {
    causeway::LinearOptions forms;
    forms.update = o.update, forms.mode = o.mode, forms.scale = o.scale;
    forms.log_decay = form_of(o.log_decay), forms.beta = form_of(o.beta), forms.state = form_of(o.state);
    forms.cu_seqlens = o.cu_seqlens, forms.state_indices = o.state_indices, forms.inplace = o.inplace;
    forms.checkpoint_every = o.checkpoint_every, forms.deterministic = o.deterministic;
    forms.A_log = form_of(o.A_log), forms.dt_bias = form_of(o.dt_bias), forms.lower_bound = o.lower_bound;
    forms.norm_weight = form_of(o.norm_weight), forms.norm_gate = form_of(o.norm_gate);
    forms.norm_activation = o.norm_activation, forms.norm_eps = o.norm_eps;
    return forms;
}

Call check(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions& o) {
    const causeway::LinearOptions forms = forms_of(o);
    causeway::gated::check_around(q.form(), k.form(), v.form(), forms);
    Call c{causeway::gated::check_sizes(q.form(), k.form(), v.form(), forms), {}, {}, {}, {}, {}, {}};
    const auto& n = c.sizes;
    constexpr Index max_width = 256;
    if (n.gates > 1) check_channels(o.mode);
    if (keeps_prefix(o)) check_prefix(o.mode);
    if (n.dk > max_width || n.dv > max_width)
        fail("q: widths ", n.dk, " and ", n.dv, " of k and v, expected at most ", max_width, " on the GPU");
    GatedArgs& a = c.args;
    a.q = q.data(), a.k = k.data(), a.v = v.data();
    a.type = q.type();
    a.N = n.N;
    a.group = static_cast<int>(n.group), a.dk = static_cast<int>(n.dk), a.dv = static_cast<int>(n.dv);
    set_heads(a, n);
    a.scale = static_cast<float>(n.scale);
    if (o.A_log) {
        set_projection(c, v, o);
    } else if (causeway::gated::has_gate(n.update)) {
        c.log_decay = each_head_of(*o.log_decay, {n.batch, n.heads, n.N, n.gates}, o.stream);
        a.gates = static_cast<int>(n.gates);
        a.g = c.log_decay.as<float>();
        if (o.check_gates) {
            const Buffer found(sizeof(std::int64_t), o.stream);
            const Index at = first_above_zero(a.g, c.log_decay.size(), found.as<std::int64_t>(), o.stream);
            if (at < c.log_decay.size())
                fail("log_decay: a number above 0 or NaN in element ", at + 1,
                     ", expected numbers <= 0 (the state is multiplied by their exponentials)");
        }
    }
    if (causeway::gated::has_delta(n.update)) {
        c.beta = each_head_of(*o.beta, {n.batch, n.heads, n.N, 1}, o.stream);
        a.beta = c.beta.as<float>();
    }
    return c;
}

SomeHeads heads_together(const causeway::gated::Sizes& n) {
    const Index q = n.shared_queries, k = n.shared_keys;
    if (q == 1 || k == 1 || q == k) return {std::max<Index>(n.heads, 1), 0, std::max<Index>(n.heads, 1)};
    return {std::lcm(q, k), 0, std::gcd(q, k)};
}

Call part_of(const Call& call, const SomeHeads& some, cudaStream_t stream) {
    Call part{call.sizes, call.args, {}, {}, {}, {}, {}};
    auto& n = part.sizes;
    GatedArgs& a = part.args;
    const auto from = [&](const void* x, Strides s, Index head) {
        return x ? static_cast<char*>(const_cast<void*>(x)) + head * s.head * bytes_of(a.type) : nullptr;
    };
    const Strides keys = contiguous(1, n.N, a.dk), values = contiguous(1, n.N, a.dv);
    a.q = from(a.q, keys, some.first / n.shared_queries), a.k = from(a.k, keys, some.first / n.shared_keys);
    a.v = from(a.v, values, some.first), a.o = from(a.o, values, some.first);
    // The heads of a period are those of a batch entry, and a step from entry to entry goes on to the next period.
    a.B = n.batch * (n.heads / some.period), a.H = some.together;
    a.q_stride = {some.period / n.shared_queries * keys.head, 0, keys.token};
    a.k_stride = {some.period / n.shared_keys * keys.head, 0, keys.token};
    a.v_stride = a.o_stride = {some.period * values.head, values.head, values.token};
    n.heads = n.heads / some.period * some.together;
    n.state_shape[1] = n.heads;
    if (a.g) part.log_decay = from_heads(call.log_decay, some, stream), a.g = part.log_decay.as<float>();
    if (a.beta) part.beta = from_heads(call.beta, some, stream), a.beta = part.beta.as<float>();
    return part;
}

Tensor first_states(const causeway::gated::Sizes& n, const LinearOptions& o) {
    if (o.state && !n.slots.empty()) return from_slots(*o.state, n.slots, o.stream).to(DType::f32, o.stream);
    if (o.state) return o.state->own(DType::f32, o.stream).reshape(n.state_shape);
    if (!n.slots.empty()) fail("state_indices: given, but no state, expected the pool of their slots as it");
    if (o.inplace) fail("inplace: true, but no state is given, expected one to write to");
    return Tensor::zeros(DType::f32, n.state_shape, o.stream);
}

void write_states(const Tensor& states, const causeway::gated::Sizes& n, const Tensor& given, cudaStream_t stream) {
    if (!n.slots.empty()) return to_slots(states.to(given.dtype(), stream), n.slots, given, stream);
    convert(states.data(), states.type(), given.data(), given.type(), states.size(), stream);
}

Runs::Runs(const Call& call, const std::vector<Index>& cu_seqlens, Index every, cudaStream_t stream, PieceGates lie)
    : pieces(pieces_of(cu_seqlens, call.args.N, every)), heads(call.args.B * call.args.H), gates(lie) {
    const bool cut = pieces.list.size() > 1 && lie == PieceGates::together;
    if (call.args.g) g = cut ? by_pieces(call.log_decay, pieces.cuts, heads, call.args.gates, stream) : call.log_decay;
    if (call.args.beta) beta = cut ? by_pieces(call.beta, pieces.cuts, heads, 1, stream) : call.beta;
}

GatedArgs Runs::args_of(const GatedArgs& all, const Piece& piece) const {
    GatedArgs a = all;
    const auto from = [&](const void* x, Strides s) { return from_token(x, a.type, s, piece.first); };
    a.q = from(a.q, a.q_stride), a.k = from(a.k, a.k_stride), a.v = from(a.v, a.v_stride);
    if (a.o) a.o = from(a.o, a.o_stride);
    if (a.g) a.g = g.as<float>() + gates_at(piece) * a.gates;
    if (a.beta) a.beta = beta.as<float>() + gates_at(piece);
    if (a.state) a.state += piece.sequence * heads * a.dk * a.dv;
    a.N = piece.n;
    return a;
}

bool is_causal(const GatedArgs& a, const causeway::gated::Sizes& n, const LinearOptions& o) {
    return !keeps_prefix(o) && a.gates == 0 && !causeway::gated::has_delta(n.update) && a.group == 1 &&
           n.shared_keys == 1 && n.shared_queries == 1 && n.mode->chunk &&
           (a.type == Type::BFloat16 || (a.type == Type::Float16 && a.scale == 1));
}

}  // namespace gated

namespace {

// Queues sequences together, all of them by one of a form's pairs of functions.
void run_together(GatedArgs a, const Sequences& sequences, std::size_t (*bytes)(const GatedArgs&, const Sequences&),
                  void (*run)(const GatedArgs&, const Sequences&, cudaStream_t), cudaStream_t stream) {
    const Buffer workspace(bytes(a, sequences), stream);
    a.workspace = {workspace.data(), workspace.bytes()};
    run(a, sequences, stream);
}

// Queues a piece on the kernels of its mode.
void run(GatedArgs a, const causeway::gated::Sizes& n, const LinearOptions& o) {
    if (!gated::is_causal(a, n, o)) {
        const GatedForm& form = gated_form(o.mode, a, gated::keeps_prefix(o));
        if (gated::keeps_prefix(o) && form.run_prefix) {
            const Index whole[] = {0, a.N};
            return run_together(a, {whole, 1}, form.prefix_workspace, form.run_prefix, o.stream);
        }
        const Buffer workspace(form.workspace(a), o.stream);
        a.workspace = {workspace.data(), workspace.bytes()};
        return form.run(a, o.stream);
    }
    CausalArgs c;
    c.q = a.q, c.k = a.k, c.v = a.v, c.o = a.o, c.type = a.type;
    c.B = a.B, c.H = a.H, c.N = a.N, c.r = a.dk, c.d = a.dv;
    c.q_stride = a.q_stride, c.k_stride = a.k_stride, c.v_stride = a.v_stride, c.o_stride = a.o_stride;
    c.state = a.state;
    const CausalMethod& method = method_for("auto", {});
    const Buffer workspace(method.workspace(c), o.stream);
    c.workspace = {workspace.data(), workspace.bytes()};
    method.run(c, o.stream);
}

// Queues all packed sequences together. False where the kernels of the mode do not take them so.
bool run_packed(GatedArgs a, const causeway::gated::Sizes& n, const LinearOptions& o) {
    if (n.sequences.empty() || o.checkpoint_every > 0 || gated::is_causal(a, n, o)) return false;
    const bool prefix = gated::keeps_prefix(o);
    const GatedForm& form = gated_form(o.mode, a, prefix);
    const auto bytes = prefix ? form.prefix_workspace : form.packed_workspace;
    const auto run = prefix ? form.run_prefix : form.run_packed;
    if (!run) return false;
    a.cut_together = o.deterministic == "run";
    run_together(a, {o.cu_seqlens.data(), static_cast<Index>(o.cu_seqlens.size()) - 1}, bytes, run, o.stream);
    return true;
}

// Piece after piece, with the states that are kept on the way; nothing is computed unless there is anything to.
std::optional<Tensor> run_pieces(const gated::Call& call, const LinearOptions& o, bool anything) {
    const auto& n = call.sizes;
    const gated::Runs runs(call, o.cu_seqlens, o.checkpoint_every, o.stream);
    const bool packed = !n.sequences.empty();
    const Index kept = runs.pieces.kept;
    std::optional<Tensor> checkpoints;
    if (o.checkpoint_every > 0)
        checkpoints = Tensor(DType::f32, {packed ? kept : kept * n.batch, n.heads, n.dk, n.dv}, o.stream);
    if (!anything) return checkpoints;
    for (const Piece& piece : runs.pieces.list) {
        const GatedArgs one = runs.args_of(call.args, piece);
        run(one, n, o);
        if (piece.checkpoint < 0) continue;
        const auto bytes = static_cast<std::size_t>(n.heads * n.dk * n.dv) * sizeof(float);
        keep_states(one.state, checkpoints->data(), packed ? 1 : n.batch, kept, piece.checkpoint, bytes, o.stream);
    }
    return checkpoints;
}

// The call on heads that share keys and queries alike. O is written, the states are advanced.
std::optional<Tensor> run_call(const gated::Call& call, const LinearOptions& o, bool anything) {
    if (anything && run_packed(call.args, call.sizes, o)) return {};
    return run_pieces(call, o, anything);
}

}  // namespace

LinearResult linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions& o) {
    gated::Call call = gated::check(q, k, v, o);
    const auto& n = call.sizes;
    GatedArgs& a = call.args;
    if (calls::has_norm(o)) {
        LinearResult out = linear_attention(q, k, v, calls::without_norm(o));
        out.O = rms_norm(out.O, gated::options_of_norm(o));
        return out;
    }
    if (o.A_log) {
        if (!gated::makes_gates_within(call, o)) return linear_attention(q, k, v, gated::gates_made(call, o));
        if (o.check_gates && !o.qk_l2norm) gated::check_made_gates(call, o);
    }
    if (o.qk_l2norm) {
        if (gated::is_causal(a, n, o) || !takes_lengths(o.mode, a, gated::keeps_prefix(o))) {
            const gated::UnitRows unit = gated::unit_rows(q, k, o);
            return linear_attention(unit.q, unit.k, v, calls::without_l2norm(o));
        }
        a.length_eps = static_cast<float>(LengthOptions().eps);
    }
    LinearResult out{Tensor(q.dtype(), n.output, o.stream), gated::first_states(n, o), {}};
    a.o = out.O.data(), a.state = out.state.as<float>();
    const bool anything = out.O.size() > 0 || out.state.size() > 0;
    gated::each_part(call, o.stream, [&](gated::Call part, const SomeHeads& some) {
        if (some.together == some.period) {
            out.checkpoints = run_call(part, o, anything);
            return;
        }
        const Tensor state = from_heads(out.state, some, o.stream);
        part.args.state = state.as<float>();
        const std::optional<Tensor> kept = run_call(part, o, anything);
        to_heads(state, some, out.state, o.stream);
        if (!kept) return;
        if (!out.checkpoints) out.checkpoints = Tensor(DType::f32, {kept->shape()[0], n.heads, n.dk, n.dv}, o.stream);
        to_heads(*kept, some, *out.checkpoints, o.stream);
    });
    if (anything && gated::is_causal(a, n, o) && a.scale != 1)
        scale_by(out.O.data(), out.O.type(), out.O.size(), a.scale, o.stream);
    if (o.inplace) {
        gated::write_states(out.state, n, *o.state, o.stream);
        out.state = *o.state;
    }
    return out;
}

void linear_attention_step(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& state, Tensor& O,
                           const LinearOptions& o, std::vector<Tensor>* states) {
    if (o.A_log || calls::has_norm(o)) {
        const gated::Call call = gated::check(q, k, v, o);
        const LinearOptions rule = o.A_log ? gated::gates_made(call, o) : o;
        linear_attention_step(q, k, v, state, O, calls::without_norm(rule), states);
        if (!calls::has_norm(o)) return;
        const Tensor y = rms_norm(O, gated::options_of_norm(o));
        convert(y.data(), y.type(), O.data(), O.type(), O.size(), o.stream);
        return;
    }
    calls::check_around(o);
    if (o.qk_l2norm) {
        gated::check(q, k, v, o);
        const gated::UnitRows unit = gated::unit_rows(q, k, o);
        return linear_attention_step(unit.q, unit.k, v, state, O, calls::without_l2norm(o), states);
    }
    LinearOptions given = o;
    if (!o.state_indices.empty()) given.state = state;
    gated::Call call = gated::check(q, k, v, given);
    const auto& n = call.sizes;
    GatedArgs& a = call.args;
    causeway::LinearOptions views;
    views.cu_seqlens = o.cu_seqlens, views.checkpoint_every = o.checkpoint_every;
    views.log_decay = gated::view_of(o.log_decay), views.beta = gated::view_of(o.beta);
    views.state = gated::view_of(o.state);
    causeway::gated::check_step(n, *gated::view_of(q), *gated::view_of(k), *gated::view_of(v), *gated::view_of(state),
                                *gated::view_of(O), views);
    // A state of Float32 that is no slot of a pool is advanced where it lies.
    const bool there = n.slots.empty() && state.dtype() == DType::f32;
    given.state = state;
    const Tensor own = there ? state : gated::first_states(n, given);
    a.o = O.data(), a.state = own.as<float>();
    if (states) {
        states->clear();
        for (Index t = 0; t < n.N; ++t) states->emplace_back(DType::f32, own.shape(), o.stream);
    }
    gated::each_part(call, o.stream, [&](gated::Call part, const SomeHeads& some) {
        const bool all = some.together == some.period;
        const Tensor advanced = all ? own : from_heads(own.reshape(n.state_shape), some, o.stream);
        part.args.state = advanced.as<float>();
        const gated::Runs runs(part, {}, 1, o.stream);
        for (const Piece& token : runs.pieces.list) {
            gated_step(runs.args_of(part.args, token), o.stream);
            if (states)
                to_heads(advanced.reshape(part.sizes.state_shape), some,
                         (*states)[static_cast<std::size_t>(token.first)].reshape(n.state_shape), o.stream);
        }
        if (!all) to_heads(advanced, some, own.reshape(n.state_shape), o.stream);
    });
    if (!there) gated::write_states(own, n, state, o.stream);
}

}  // namespace causeway::gpu
