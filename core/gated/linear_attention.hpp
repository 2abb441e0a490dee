// Linear attention with gates and delta rules: the public functions, where everything is checked.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/calls/linear_attention.hpp"
#include "core/gated/problem.hpp"
#include "core/gated/registry.hpp"
#include "core/measure/counting.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway {

struct LinearResult {
    Tensor O;  // [b, max(h_q, h), N, d_v], the type of q
    Tensor
        state;  // [b, h, d_k, d_v] after the last token; Float32, for Float64 inputs Float64; in place: what was given
    // With checkpoint_every = c [checkpoints, h, d_k, d_v]: of each sequence in turn the states after c, 2c, ...
    // tokens.
    std::optional<Tensor> checkpoints;
};

// The recurrence of core/gated/problem.hpp. q [b, h_q, N, d_k], k [b, h_k, N, d_k], v [b, h, N, d_v], log_decay and
// beta with the heads of v, which have a state each. h is a multiple of h_k: consecutive heads of v share one of k
// (grouped values). h_q is a multiple of h, and then consecutive heads of q read one state (grouped queries), or
// divides it, and then consecutive states are read by one head of q. Or all without b, or without b and heads
// (log_decay and beta likewise). One element type for q, k, v; Float16 and BFloat16 are computed in Float32. log_decay
// and beta may have one head for all.
//
// cu_seqlens packs n sequences one after the other into b = 1: n + 1 offsets from 0 to N, none smaller than the one
// before it. Each has a state of its own, [n, h, d_k, d_v], and the bits of a call with that sequence alone.
//
// The state to start from may be Float32, Float16 or BFloat16 (Float64 inputs: Float64); states are computed in the
// type of computation. state_indices makes it a pool [slots, h, d_k, d_v], where each sequence (or batch entry) starts
// from the slot that its index names, counted from 0; no other slot is read. Without inplace the states after the last
// tokens are returned in the order of the sequences, with it they are written to the given state, rounded to its type,
// and the indices must differ; nothing is written before all is computed.
//
// O(N·(d_k·d_v + chunk·(d_k + d_v))) time chunkwise, O(N·d_k·d_v) recurrent, O(N²·(d_k + d_v)) parallel. Throws Error
// naming the argument, OutOfMemory, Interrupted, Timeout.
LinearResult linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions& = {});

// The same by the definition of the mode in Float64, with every operation counted: `count` grows by what was executed.
LinearResult linear_attention_counted(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions&,
                                      OperationCount& count);

namespace gated {

// The sizes and types of a call.
struct Sizes {
    Update update;
    const Mode* mode;
    Index batch, heads, group, shared_queries, shared_keys, N, dk, dv, gates, chunk;  // heads: of v and the states
    std::vector<Sequence> sequences;                                                  // packed ones, or none
    std::vector<Index> slots;                                                         // of a pool, or none
    DType dtype;                                                                      // of q, k, v and the output
    DType compute;                                                                    // Float32 or Float64
    Shape output;       // as the caller wrote q, with the heads that read a state and the width d_v
    Shape state_shape;  // [batch or packed sequences, heads, d_k, d_v]
    double scale;

    // A problem of these sizes, without tensors.
    template <class T>
    Problem<T> problem() const {
        Problem<T> p;
        p.batch = batch, p.heads = heads, p.group = group;
        p.shared_queries = shared_queries, p.shared_keys = shared_keys;
        p.N = N, p.dk = dk, p.dv = dv, p.gates = gates, p.chunk = chunk;
        p.sequences = sequences;
        return p;
    }
};
// Everything that is checked without looking at an element. Allocates nothing where all is well.
Sizes check_sizes(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions&);
// Whether a state may have this shape: [b, h, d_k, d_v], or as the caller writes v.
bool is_state_shape(const Shape& s, const Tensor& v, const Sizes&);
// Shape and type of a state to start from, and the slots of a pool; `written`: the final states go there.
void check_state(const Tensor& state, const Tensor& v, const Sizes&, bool written);
// A copy of the states to start from, [sequences, heads, d_k, d_v] in the type of computation.
Tensor states_of(const Tensor& state, const Sizes&);
// The same of a call: zeros where no state is given. Throws Error for slots of no pool and for a final state without a
// place.
Tensor first_states(const Sizes&, const LinearOptions&);
// Writes the states of the sequences to where states_of took them from.
void write_states(const Tensor& states, const Sizes&, Tensor& state);
// Throws Error unless every element is a number <= 0 (-Inf is one).
void check_log_decay(const Tensor& g);

// What the checks make of a call: tensors of four dimensions, contiguous, in the type of computation.
struct Call : Sizes {
    Tensor q, k, v, log_decay, beta, state;  // log_decay, beta: empty where the update has none; state: a copy or zeros
};
Call check(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions&);

// T is the type that call.compute names. O and S are the caller's to set.
template <class T>
Problem<T> problem_of(const Call& call) {
    auto p = call.problem<T>();
    p.q = call.q.data<T>();
    p.k = call.k.data<T>();
    p.v = call.v.data<T>();
    p.g = has_gate(call.update) ? call.log_decay.data<T>() : nullptr;
    p.beta = has_delta(call.update) ? call.beta.data<T>() : nullptr;
    p.scale = static_cast<T>(call.scale);
    return p;
}

// Who computes all heads of a checked problem: by default the mode that the call names.
struct Runner {
    std::function<void(const Problem<float>&)> f32;
    std::function<void(const Problem<double>&)> f64;
};

// linear_attention, but for who computes it.
LinearResult linear_attention_by(const Runner&, const Tensor& q, const Tensor& k, const Tensor& v,
                                 const LinearOptions&);

}  // namespace gated
}  // namespace causeway
