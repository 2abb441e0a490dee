// What the kernels of this folder are told.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/gated/general/arguments.hpp"
#include "gpu/gradient/general_recurrent.hpp"

namespace causeway::gpu::general {

constexpr int grad_threads = 128, grad_columns = 32;

// Tokens between two states that the backward kernel starts from: those in between it keeps in shared memory.
inline int tokens_kept(int dk) { return dk > 128 ? 4 : 8; }

// The states before every `every`-th of the tokens [first, first + tokens), from `from` on (the state before the first
// of them), to [(tokens + every - 1) / every, all heads, dk, dv].
struct Record {
    Call call;
    std::int64_t first, tokens, every;
    const float* from;
    float* to;
};
void launch_record(const Record& p, cudaStream_t stream);

// The same tokens backwards. states: those before every tokens_kept-th of them. sums: [blocks of 32 columns, all heads,
// tokens, vectors, dk], the part of these columns in dq (of each query), dk, then dw and du, then da of every channel.
struct Backward {
    Call call;
    Input dO;
    std::int64_t first, tokens;
    const float* states;
    float *sums, *dv, *dstate;
    std::int64_t rows;  // of a head of dv

    int vectors() const { return call.group + 1 + (call.u.rows.data ? 2 : 0) + (call.gates > 0 ? 1 : 0); }
    int wide() const { return (call.dv + grad_columns - 1) / grad_columns; }
};
void launch_backward(const Backward& p, cudaStream_t stream);

// Adds the sums of all columns up, into the gradients.
void launch_add_columns(const Backward& p, const GeneralGradArgs& to, cudaStream_t stream);

}  // namespace causeway::gpu::general
