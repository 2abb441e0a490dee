#include "gpu/calls/general_linear_attention.hpp"

#include "core/gated/step.hpp"
#include "gpu/gated/general/chunks.hpp"
#include "gpu/gated/general/recurrent.hpp"

namespace causeway::gpu {

namespace {

constexpr Index max_width = 256;

// Those about states, which linear_attention has too.
LinearOptions state_options(const GeneralOptions& o) {
    LinearOptions out;
    out.state = o.state, out.inplace = o.inplace, out.stream = o.stream;
    return out;
}

}  // namespace

namespace gated {

causeway::GeneralOptions forms_of(const GeneralOptions& o) {
    causeway::GeneralOptions out;
    out.a = form_of(o.a), out.u = form_of(o.u), out.w = form_of(o.w), out.state = form_of(o.state);
    out.mode = o.mode, out.chunk = o.chunk, out.scale = o.scale;
    out.cu_seqlens = o.cu_seqlens, out.state_indices = o.state_indices, out.inplace = o.inplace;
    out.checkpoint_every = o.checkpoint_every, out.deterministic = o.deterministic;
    return out;
}

GeneralCall check_general(const Tensor& q, const Tensor& k, const Tensor& v, const GeneralOptions& o) {
    GeneralCall c{causeway::gated::check_general_sizes(q.form(), k.form(), v.form(), forms_of(o)), {}};
    const auto& n = c.sizes;
    if (o.mode == "parallel")
        fail("mode: \"parallel\" does not run on the GPU by the general rule, expected \"chunkwise\" or \"recurrent\"");
    if (n.dk > max_width || n.dv > max_width)
        fail("q: widths ", n.dk, " and ", n.dv, " of k and v, expected at most ", max_width, " on the GPU");
    const auto input = [&](const Tensor& x, Index heads, Index shared, Index width) {
        return GeneralInput{x.data(), x.type(), contiguous(heads / shared, n.N, static_cast<int>(width)),
                            static_cast<int>(shared)};
    };
    GeneralArgs& a = c.args;
    const Index readers = n.heads * n.group;
    a.q = input(q, readers, n.shared_queries, n.dk);
    a.k = input(k, n.heads, n.shared_keys, n.dk), a.v = input(v, n.heads, 1, n.dv);
    if (n.erases) a.u = input(*o.u, n.heads, n.u_shared, n.dk), a.w = input(*o.w, n.heads, n.w_shared, n.dk);
    if (n.gates > 0) a.a = input(*o.a, n.heads, n.a_shared, n.gates);
    a.gates = static_cast<int>(n.gates);
    a.type = q.type(), a.o_stride = contiguous(readers, n.N, static_cast<int>(n.dv));
    a.B = n.batch, a.H = n.heads, a.N = n.N;
    a.group = static_cast<int>(n.group), a.dk = static_cast<int>(n.dk), a.dv = static_cast<int>(n.dv);
    a.scale = static_cast<float>(n.scale);
    return c;
}

GeneralArgs args_of(const GeneralArgs& all, const Piece& piece) {
    GeneralArgs a = all;
    for (GeneralInput* x : {&a.q, &a.k, &a.v, &a.u, &a.w, &a.a})
        if (x->data) x->data = from_token(x->data, x->type, x->stride, piece.first);
    if (a.o) a.o = from_token(a.o, a.type, a.o_stride, piece.first);
    a.state += piece.sequence * a.B * a.H * a.dk * a.dv;
    a.N = piece.n;
    return a;
}

}  // namespace gated

namespace {

// Queues tokens of every head, or all packed sequences, on the kernels of the mode.
void run(GeneralArgs a, const Sequences& sequences, const GeneralOptions& o) {
    const bool recurrent = o.mode == "recurrent";
    const Buffer workspace(
        recurrent ? general_recurrent_workspace(a, sequences) : general_chunks_workspace(a, sequences), o.stream);
    a.workspace = {workspace.data(), workspace.bytes()};
    if (recurrent) general_recurrent(a, sequences, o.stream);
    else general_chunks(a, sequences, o.stream);
}

// Piece after piece, with the states that are kept on the way.
void run_pieces(const gated::GeneralCall& call, const GeneralOptions& o, LinearResult& out) {
    const auto& n = call.sizes;
    const bool packed = !n.sequences.empty();
    const Pieces pieces = pieces_of(o.cu_seqlens, call.args.N, o.checkpoint_every);
    if (o.checkpoint_every > 0)
        out.checkpoints =
            Tensor(DType::f32, {packed ? pieces.kept : pieces.kept * n.batch, n.heads, n.dk, n.dv}, o.stream);
    const auto bytes = static_cast<std::size_t>(n.heads * n.dk * n.dv) * sizeof(float);
    for (const Piece& piece : pieces.list) {
        const GeneralArgs one = gated::args_of(call.args, piece);
        run(one, {}, o);
        if (piece.checkpoint < 0) continue;
        keep_states(one.state, out.checkpoints->data(), packed ? 1 : n.batch, pieces.kept, piece.checkpoint, bytes,
                    o.stream);
    }
}

}  // namespace

LinearResult general_linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, const GeneralOptions& o) {
    gated::GeneralCall call = gated::check_general(q, k, v, o);
    const auto& n = call.sizes;
    LinearResult out{Tensor(q.dtype(), n.output, o.stream), gated::first_states(n, state_options(o)), {}};
    call.args.o = out.O.data(), call.args.state = out.state.as<float>();
    if (out.O.size() == 0 && out.state.size() == 0) call.args.N = 0;  // nothing to compute, of any width
    if (o.checkpoint_every > 0) {
        run_pieces(call, o, out);
    } else if (call.args.N > 0) {
        run(call.args, {o.cu_seqlens.data(), n.sequences.empty() ? 0 : std::ssize(o.cu_seqlens) - 1}, o);
    }
    if (o.inplace) {
        gated::write_states(out.state, n, *o.state, o.stream);
        out.state = *o.state;
    }
    return out;
}

void general_linear_attention_step(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& state, Tensor& O,
                                   const GeneralOptions& o, std::vector<Tensor>* states) {
    GeneralOptions given = o;
    given.mode = "recurrent";
    gated::GeneralCall call = gated::check_general(q, k, v, given);
    const auto& n = call.sizes;
    const auto view = [](const Tensor& x) { return causeway::Tensor::view(x.dtype(), x.shape(), x.data()); };
    const auto view_of = [&](const std::optional<Tensor>& x) {
        return x ? std::optional(view(*x)) : std::optional<causeway::Tensor>();
    };
    causeway::GeneralOptions views = gated::forms_of(o);
    views.a = view_of(o.a), views.u = view_of(o.u), views.w = view_of(o.w), views.state = view_of(o.state);
    causeway::gated::check_general_step(n, view(q), view(k), view(v), view(state), view(O), views);
    // A state of Float32 that is no slot of a pool is advanced where it lies.
    const bool there = n.slots.empty() && state.dtype() == DType::f32;
    given.state = state;
    const Tensor own = there ? state : gated::first_states(n, state_options(given));
    call.args.o = O.data(), call.args.state = own.as<float>();
    if (states) states->clear();
    const bool anything = O.size() > 0 && own.size() > 0;
    if (anything && !states) run(call.args, {}, given);
    for (const Piece& token : states ? pieces_of({}, n.N, 1).list : std::vector<Piece>()) {
        if (anything) run(gated::args_of(call.args, token), {}, given);
        states->push_back(own.copy(o.stream));
    }
    if (!there) gated::write_states(own, n, state, o.stream);
}

}  // namespace causeway::gpu
