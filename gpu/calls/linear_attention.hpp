// Linear attention with gates and delta rules on the GPU: the public functions, where everything is checked.
#pragma once

#include <optional>
#include <string>

#include "core/gated/linear_attention.hpp"
#include "gpu/around/decay_gate.hpp"
#include "gpu/around/norms.hpp"
#include "gpu/calls/pieces.hpp"
#include "gpu/gated/problem.hpp"
#include "gpu/tensor/places.hpp"
#include "gpu/tensor/tensor.hpp"

namespace causeway::gpu {

// The options that core/calls/linear_attention.hpp describes, and the stream that everything is queued on.
struct LinearOptions : calls::LinearOptions<Tensor> {
    bool check_gates = true;  // whether elements of log_decay are looked at, which waits for the stream
    cudaStream_t stream = nullptr;
};

struct LinearResult {
    Tensor O;                           // [b, h_q, N, d_v], the type of q
    Tensor state;                       // Float32 [b, h, d_k, d_v] after the last token; in place: what was given
    std::optional<Tensor> checkpoints;  // Float32, as those of causeway::LinearResult
};

// linear_attention of core for tensors on the GPU: Float32, Float16 or BFloat16, sums in Float32. Returns when
// everything is queued on options.stream. chunkwise: on Hopper, for 16-bit types with at most one gate a head, on
// tensor cores, where keys must have beta |k|² <= 2, as stable states do (gpu/gated/delta.hpp); elsewhere in Float32.
// Heads, packed sequences, pools of states, inplace and checkpoint_every are as on the CPU; where heads of q are fewer
// than those of v and not those of k, the heads of v that share both theirs are computed together, call after call.
// What lies between two checkpoints, and a packed sequence unless "run" is asked for, has the bits of a call of its
// own, and is queued as one, but for packed sequences without checkpoints in forms that take them all at once
// (gpu/gated/registry.hpp). deterministic is "alone" by itself. With "run" packed sequences are cut together
// (GatedArgs::cut_together). With "prefix" no bit of an output depends on later tokens and gates, N, the batch, the
// heads or other packed sequences, while all numbers are finite: chunkwise on tensor cores with at most one gate a
// head, elsewhere in Float32; recurrent; not parallel. A CUDA graph may capture the call where check_gates is false,
// and keeps which sequences there are. Throws Error naming the argument, OutOfMemory.
LinearResult linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions& = {});

// 1 to 16 tokens, advancing `state` in place, token by token; a pool with state_indices, and states in 16 bits, as on
// the CPU. O [b, h_q, T, d_v] of the type of q is written; `states`, where given, becomes the states after each token.
// One token allocates nothing where the state, log_decay and beta are Float32 with a value for every head, and neither
// gates are made nor outputs normed.
void linear_attention_step(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& state, Tensor& O,
                           const LinearOptions& = {}, std::vector<Tensor>* states = nullptr);

namespace gated {

// A checked call: `args` holds everything but outputs, state and workspace; the tensors keep its gates alive.
struct Call {
    causeway::gated::Sizes sizes;
    GatedArgs args;
    Tensor log_decay, beta;
    Tensor projection, A_log, dt_bias;  // in the place of log_decay, of gates that are to be made
};
Call check(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions&);

// Of each `period` consecutive heads of v, which have whole heads of q and of k, the first `together`, the next and so
// on share one of both: all of them where the heads of q or of k are those of v, or both are as many.
SomeHeads heads_together(const causeway::gated::Sizes&);
// The call on these heads alone. Its gates are copies of theirs, [batch, heads, N, ..] like its states.
Call part_of(const Call&, const SomeHeads&, cudaStream_t);
// f(call, heads) for the call on all heads, or for one after the other of those that share both queries and keys.
template <class F>
void each_part(const Call& call, cudaStream_t stream, F&& f) {
    SomeHeads some = heads_together(call.sizes);
    if (some.together == some.period) return f(call, some);
    for (; some.first < some.period; some.first += some.together) f(part_of(call, some, stream), some);
}

// q and k divided by their lengths, for calls that cannot do it themselves.
struct UnitRows {
    Tensor q, k;
};
UnitRows unit_rows(const Tensor& q, const Tensor& k, const LinearOptions&);
// out.dq and out.dk become what arrives at q and k, from what arrives at their unit_rows().
template <class Gradient>
void gradient_of_unit_rows(const Tensor& q, const Tensor& k, Gradient& out, const LinearOptions& o) {
    LengthOptions lengths;
    lengths.stream = o.stream;
    out.dq = l2norm_grad(q, out.dq, lengths), out.dk = l2norm_grad(k, out.dk, lengths);
}

// The options of the norm and of the gates that the call makes, on its stream.
NormOptions options_of_norm(const LinearOptions&);
DecayGateOptions options_of_gates(const LinearOptions&);
// The options of the call on gates that are made by a kernel of their own, in Float32, for calls that cannot do it
// themselves.
LinearOptions gates_made(const Call&, const LinearOptions&);

// The options as those of the CPU, of forms alone.
causeway::LinearOptions forms_of(const LinearOptions&);

// Whether causal linear attention computes the call: without gates and the delta rule, in chunks, but for "prefix",
// since where its methods begin new states hangs on N. It knows no scale, which BFloat16 takes afterwards; Float16 may
// have no room for what is to be scaled.
bool is_causal(const GatedArgs&, const causeway::gated::Sizes&, const LinearOptions&);

// Whether the call asks for deterministic = "prefix".
bool keeps_prefix(const LinearOptions&);

// The states to start from, [sequences, h, d_k, d_v] in Float32: zeros, or a copy that is the caller's to advance.
// Throws Error as causeway::gated::first_states does.
Tensor first_states(const causeway::gated::Sizes&, const LinearOptions&);
// Writes the states of the sequences to where first_states took them from.
void write_states(const Tensor& states, const causeway::gated::Sizes&, const Tensor& given, cudaStream_t);

// How the gates and β of a piece lie: one head after the other, or as they are given, where each head goes on to the
// other pieces.
enum class PieceGates { together, in_place };

// A checked call as calls on its pieces, with the gates as these take them.
struct Runs {
    Pieces pieces;
    Index heads;  // of v, in all batches
    PieceGates gates;
    Tensor g, beta;

    Runs(const Call&, const std::vector<Index>& cu_seqlens, Index every, cudaStream_t,
         PieceGates = PieceGates::together);
    // Where a piece's gates begin, in numbers of one column.
    Index gates_at(const Piece& piece) const {
        return gates == PieceGates::in_place ? piece.first : piece.first * heads;
    }
    // `all` are the arguments of the call.
    GatedArgs args_of(const GatedArgs& all, const Piece&) const;
};

}  // namespace gated
}  // namespace causeway::gpu
