#include "gpu/exact/causal_linear_attention.hpp"

#include "core/kit/check.hpp"
#include "core/kit/packed.hpp"
#include "gpu/base/copy.hpp"
#include "gpu/base/error.hpp"
#include "gpu/calls/packed.hpp"
#include "gpu/calls/pieces.hpp"
#include "gpu/exact/grouped.hpp"
#include "gpu/exact/normalize.hpp"
#include "gpu/exact/registry.hpp"
#include "gpu/tensor/elementwise.hpp"
#include "gpu/tensor/places.hpp"

namespace causeway::gpu {

namespace {

using causeway::exact::Dimensions;

constexpr const char *fastest = "lightning-attention-2", *of_any_block = "block-based";

// `width` columns of every row of the two, rows of `to` and `from` being `to_row` and `from_row` columns apart.
void copy_columns(float* to, Index to_row, const float* from, Index from_row, Index width, Index rows,
                  cudaStream_t stream) {
    const auto bytes = [](Index n) { return static_cast<std::size_t>(n) * sizeof(float); };
    copy_rows({to, bytes(to_row), from, bytes(from_row), bytes(width), static_cast<std::size_t>(rows)}, stream,
              "copying a state");
}

}  // namespace

const CausalMethod& method_for(const std::string& name, std::optional<Index> block) {
    if (block && *block < 1) fail("block: ", *block, ", expected 1 or more");
    if (name == "auto") return causal_method(!block || *block == causal_method(fastest).block ? fastest : of_any_block);
    const CausalMethod& m = causal_method(causeway::exact::method(name).name);
    if (block && m.block == 0) fail("block: the method \"", m.name, "\" has none");
    if (block && !m.any_block && *block != m.block) {
        fail("block: ", *block, ", expected ", m.block, ", the block that ", m.name, " is built for on the GPU");
    }
    return m;
}

void check_states(const Dimensions& n, const CausalOptions& o) {
    if (!o.cu_seqlens.empty()) causeway::kit::packed_spans(o.cu_seqlens, n.batch, n.N);
    if (o.checkpoint_every < 0) fail("checkpoint_every: ", o.checkpoint_every, ", expected 1 or more, or 0 for none");
    if (!o.state && !o.state_indices.empty())
        fail("state_indices: given, but no state, expected the pool of their slots as it");
    if (!o.state && o.inplace) fail("inplace: true, but no state is given, expected one to write to");
    if (!o.state) return;
    causeway::CausalOptions forms;
    forms.normalize = o.normalize, forms.cu_seqlens = o.cu_seqlens, forms.state_indices = o.state_indices;
    forms.inplace = o.inplace, forms.state = o.state->form();
    causeway::exact::check_states(n, forms);
}

CausalArgs causal_args(const Tensor& B, const Tensor& C, const Tensor& V, const Dimensions& n,
                       const std::vector<double>& gamma, Precision precision) {
    CausalArgs a;
    a.q = B.data(), a.k = C.data(), a.v = V.data();
    a.type = B.type();
    a.B = n.batch, a.H = n.heads, a.N = n.N, a.r = static_cast<int>(n.r), a.d = static_cast<int>(n.d);
    a.q_stride = a.k_stride = contiguous(n.heads, n.N, a.r), a.v_stride = a.o_stride = contiguous(n.heads, n.N, a.d);
    a.gamma = gamma.empty() ? nullptr : gamma.data();
    a.precision = precision;
    return a;
}

NormalStates split_states(const Tensor& wide, cudaStream_t stream) {
    const Tensor given = wide.to(DType::f32, stream);
    Shape shape = given.shape();
    const Index columns = shape[3]--, rows = shape[0] * shape[1] * shape[2];
    NormalStates out{Tensor(DType::f32, shape, stream), Tensor(DType::f32, {shape[0], shape[1], shape[2]}, stream)};
    copy_columns(out.sums.as<float>(), columns - 1, given.as<float>(), columns, columns - 1, rows, stream);
    copy_columns(out.keys.as<float>(), 1, given.as<float>() + columns - 1, columns, 1, rows, stream);
    return out;
}

Tensor joined_states(const Tensor& sums, const Tensor& keys, cudaStream_t stream) {
    Shape shape = sums.shape();
    const Index wide = ++shape[3];
    Tensor out(DType::f32, shape, stream);
    copy_columns(out.as<float>(), wide, sums.as<float>(), wide - 1, wide - 1, keys.size(), stream);
    copy_columns(out.as<float>() + wide - 1, wide, keys.as<float>(), 1, 1, keys.size(), stream);
    return out;
}

namespace {

// The states of a call's sequences: `sums` [sequences, h, r, d] and, for normalised attention, `keys` [sequences, h,
// r], the last column of what is given.
struct States {
    Tensor sums, keys;

    States(const Dimensions& n, const CausalOptions& o) {
        const Index sequences = o.cu_seqlens.empty() ? n.batch : static_cast<Index>(o.cu_seqlens.size()) - 1;
        sums = Tensor::zeros(DType::f32, {sequences, n.heads, n.r, n.d}, o.stream);
        if (o.normalize) keys = Tensor::zeros(DType::f32, {sequences, n.heads, n.r}, o.stream);
        if (!o.state) return;
        const Tensor stored = o.state_indices.empty() ? *o.state : from_slots(*o.state, o.state_indices, o.stream);
        if (o.normalize) {
            const NormalStates given = split_states(stored, o.stream);
            sums = given.sums, keys = given.keys;
        } else {
            convert(stored.data(), stored.type(), sums.data(), sums.type(), sums.size(), o.stream);
        }
    }
    Tensor together(bool normalize, cudaStream_t stream) const {
        return normalize ? joined_states(sums, keys, stream) : sums;
    }
};

// The arguments of a call for a piece of its tokens.
CausalArgs args_of(const CausalArgs& all, const Piece& piece) {
    CausalArgs a = all;
    const auto from = [&](const void* x, Strides s) { return from_token(x, a.type, s, piece.first); };
    a.q = from(a.q, a.q_stride), a.k = from(a.k, a.k_stride), a.v = from(a.v, a.v_stride), a.o = from(a.o, a.o_stride);
    if (a.state) a.state += piece.sequence * a.B * a.H * a.r * a.d;
    a.N = piece.n;
    return a;
}

// Queues a piece; keys: the last column of its states, or null.
void run(const CausalMethod& method, CausalArgs a, float* keys, const CausalOptions& o) {
    const Buffer workspace(method.workspace(a), o.stream);
    a.workspace = {workspace.data(), workspace.bytes()};
    method.run(a, o.stream);
    if (!o.normalize) return;
    const Buffer room(normalize_workspace(a), o.stream);
    a.workspace = {room.data(), room.bytes()};
    normalize(a, o.stream, keys);
}

// Writes the final states to where the first ones came from.
void write_states(CausalResult& out, const CausalOptions& o) {
    const Tensor& given = *o.state;
    if (!o.state_indices.empty()) to_slots(out.state.to(given.dtype(), o.stream), o.state_indices, given, o.stream);
    else convert(out.state.data(), out.state.type(), given.data(), given.type(), given.size(), o.stream);
    out.state = given;
}

// Heads that are shared: part by part.
CausalResult by_parts(const Tensor& B, const Tensor& C, const Tensor& V, const CausalOptions& o, const Dimensions& n) {
    const GroupedHeads heads(n);
    const Tensor before = !o.state                  ? Tensor()
                          : o.state_indices.empty() ? *o.state
                                                    : from_slots(*o.state, o.state_indices, o.stream);
    CausalResult out{Tensor(V.dtype(), causeway::exact::output_shape(V.form(), n), o.stream), {}, {}};
    const auto collect = [&](const Tensor& part, Index j, auto& all) {
        Shape shape = part.shape();
        shape[1] = n.state_heads();
        if (j == 0) all = Tensor(DType::f32, shape, o.stream);
        to_heads(part, heads.of(n.shared_V, j), all, o.stream);
    };
    for (Index j = 0; j < heads.parts(); ++j) {
        CausalOptions one = o;
        one.state_indices.clear(), one.inplace = false;
        one.return_state = (o.return_state || o.inplace) && heads.has_states(j);
        one.decay = heads.decay_of(o.decay, j);
        if (o.state) one.state = from_heads(before, heads.of(n.shared_V, j), o.stream);
        const CausalResult part = causal_linear_attention(heads.part_of(B, n.shared_B, j, o.stream),
                                                          heads.part_of(C, n.shared_C, j, o.stream),
                                                          heads.part_of(V, n.shared_V, j, o.stream), one);
        to_heads(part.O, heads.of(1, j), heads.four(out.O, 1), o.stream);
        if (one.return_state) collect(part.state, j, out.state);
        if (!part.checkpoints || !heads.has_states(j)) continue;
        if (j == 0) out.checkpoints = Tensor();
        collect(*part.checkpoints, j, *out.checkpoints);
    }
    if (o.inplace) write_states(out, o);
    return out;
}

}  // namespace

CausalResult causal_linear_attention(const Tensor& B, const Tensor& C, const Tensor& V, const CausalOptions& o) {
    const Dimensions n = causeway::exact::check_grouped_inputs(B.form(), C.form(), V.form());
    const auto gamma = causeway::exact::check_decay(o.decay, n.state_heads());
    causeway::kit::check_scale(o.scale, n.dtype);
    refuse_prefix(o.deterministic, "causal_linear_attention on the GPU");
    check_states(n, o);
    if (n.dtype == DType::f16 && (o.normalize || o.scale != 1)) {
        // Sums above 65504 would be Inf in the output before it is divided or scaled.
        CausalResult wide = causal_linear_attention(B.to(DType::f32, o.stream), C.to(DType::f32, o.stream),
                                                    V.to(DType::f32, o.stream), o);
        wide.O = wide.O.to(DType::f16, o.stream);
        return wide;
    }
    if (GroupedHeads(n).any()) return by_parts(B, C, V, o, n);
    const CausalMethod& method = method_for(o.method, o.block);
    const bool state = o.state || o.return_state || o.checkpoint_every > 0;
    if (state && !method.state) fail("state: the method \"", method.name, "\" carries no state");

    CausalResult out{Tensor(V.dtype(), V.shape(), o.stream), {}, {}};
    CausalArgs a = causal_args(B, C, V, n, gamma, o.precision);
    a.block = o.block.value_or(0);
    a.o = out.O.data();
    std::optional<States> states, kept;
    const bool packed = !o.cu_seqlens.empty();
    const Pieces pieces = pieces_of(o.cu_seqlens, n.N, o.checkpoint_every);
    const Index entries = packed ? 1 : n.batch;  // states behind a piece
    if (state) states.emplace(n, o), a.state = states->sums.as<float>();
    if (o.checkpoint_every > 0) {
        kept = *states;
        kept->sums = Tensor(DType::f32, {entries * pieces.kept, n.heads, n.r, n.d}, o.stream);
        if (o.normalize) kept->keys = Tensor(DType::f32, {entries * pieces.kept, n.heads, n.r}, o.stream);
    }
    if (n.batch > 0 && n.heads > 0 && n.N > 0 && n.r > 0 && n.d > 0) {
        for (const Piece& piece : pieces.list) {
            const CausalArgs one = args_of(a, piece);
            float* const keys =
                state && o.normalize ? states->keys.as<float>() + piece.sequence * entries * n.heads * n.r : nullptr;
            run(method, one, keys, o);
            if (piece.checkpoint < 0) continue;
            const auto keep = [&](const float* from, const Tensor& to, Index elements) {
                keep_states(from, to.data(), entries, pieces.kept, piece.checkpoint,
                            static_cast<std::size_t>(elements) * sizeof(float), o.stream);
            };
            keep(one.state, kept->sums, n.heads * n.r * n.d);
            if (o.normalize) keep(keys, kept->keys, n.heads * n.r);
        }
        if (o.scale != 1 && !o.normalize)
            scale_by(out.O.data(), out.O.type(), out.O.size(), static_cast<float>(o.scale), o.stream);
    } else if (out.O.bytes() > 0) {
        // Without ranks every sum is empty, and an output divided by it 0/0.
        check(cudaMemsetAsync(out.O.data(), o.normalize ? 0xFF : 0, out.O.bytes(), o.stream), "clearing the output");
    }
    if (kept) out.checkpoints = kept->together(o.normalize, o.stream);
    if (o.return_state || o.inplace) out.state = states->together(o.normalize, o.stream);
    if (o.inplace) write_states(out, o);
    return out;
}

}  // namespace causeway::gpu
