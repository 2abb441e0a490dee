// The checks that all methods of the gated and delta-rule family make, and what their kernels are told.
#pragma once

#include "gpu/gated/problem.hpp"

namespace causeway::gpu::gated {

// Throws Error with one sentence, naming the method and the argument, unless sizes and pointers fit together.
void check(const GatedArgs& a, const char* method);
// Throws Error unless the workspace has so many bytes and is aligned.
void check_workspace(const Workspace& w, std::size_t bytes, const char* method);

// One of q, k, v, o as kernels see it.
struct Operand {
    char* data;
    std::int64_t batch, head, token;  // strides in bytes
    int whole;                        // rows are pieces of 16 bytes, aligned
    int quads;                        // and of 4 elements, aligned
};
Operand operand(const void* data, Type type, Strides s, int width);

enum class Gates { none, head, channel };  // none, one a head, one a channel of the keys
inline Gates gates_of(const GatedArgs& a) {
    return a.gates == 0 ? Gates::none : a.gates == 1 ? Gates::head : Gates::channel;
}

// All of a call.
struct Call {
    Operand q, k, v, o;
    Type type;
    int heads, group, dk, dv, gates;
    std::int64_t all_heads, N;
    const float *g, *beta;
    float* state;
    float scale;
    Projection projection;
};
Call call_of(const GatedArgs& a);
inline Gates gates_of(const Call& call) {
    return call.gates == 0 ? Gates::none : call.gates == 1 ? Gates::head : Gates::channel;
}

}  // namespace causeway::gpu::gated
