// The checks that both forms of the general rule make, and what their kernels are told.
#pragma once

#include "gpu/gated/arguments.hpp"
#include "gpu/gated/general/problem.hpp"
#include "gpu/gated/rounds.hpp"

namespace causeway::gpu::general {

// Throws Error with one sentence, naming the form and the argument, unless sizes and pointers fit together.
void check(const GeneralArgs& a, const Sequences& sequences, const char* form);
inline bool is_empty(const GeneralArgs& a) { return a.B * a.H * a.N == 0; }

// An input as kernels see it; `data` null: not given.
struct Input {
    gated::Operand rows;
    Type type;
    int shared;
};

// All of a call.
struct Call {
    Input q, k, v, u, w, a;
    gated::Operand o;
    Type type;
    int heads, group, dk, dv, gates;
    std::int64_t all_heads;
    float* state;
    float scale;
};
Call call_of(const GeneralArgs& a);

using gated::Gates;
inline Gates gates_of(const Call& call) {
    return call.gates == 0 ? Gates::none : call.gates == 1 ? Gates::head : Gates::channel;
}

// Tokens that kernels are launched for: of every batch entry the same, or of packed sequences the parts of a round.
struct Tokens {
    gated::SequencePart whole;  // where nothing is packed: first_chunk and sequence are 0
    gated::RoundLists lists;    // else; parts null: none
    std::int64_t parts, chunks;
};

#ifdef __CUDACC__
__device__ __forceinline__ gated::SequencePart part_at(const Tokens& tokens, std::int64_t i) {
    return tokens.lists.parts ? tokens.lists.parts[i] : tokens.whole;
}
// The rows of head h of an input, as the heads of v (of the output, for q) are counted.
__device__ __forceinline__ const char* head_of(const Input& x, std::int64_t b, std::int64_t h) {
    return x.rows.data + b * x.rows.batch + h / x.shared * x.rows.head;
}
#endif

}  // namespace causeway::gpu::general
