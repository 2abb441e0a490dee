// What the kernels of this folder are told. README.md has the letters.
#pragma once

#include "gpu/gated/channels/part.hpp"
#include "gpu/gradient/problem.hpp"

namespace causeway::gpu::gradient {

// A part of the tokens with the gradients of all inputs. The forward kernels have filled part.keys, part.queries,
// part.states and, with the delta rule, part.updates and part.inverse.
struct BackwardChunks {
    channels::Part part;
    gated::Operand dO, dq, dk, dv;
    float *dg, *dbeta;
    const float* dstate_in;         // with respect to the state after the part; null: zeros
    float* dstate_out;              // before it; null: dropped
    channels::KeptTiles after, dU;  // the gradient of the state after each chunk; dU
    bool states_before;             // part.states and part.updates were there before the sweep over part.after began
};

// The whole call once more, where *not_finite is not 0: `blocks` batch-heads at a time, `segments` of `each` tokens.
struct Walks {
    gated::Call call;
    gated::Operand dO, dq, dk, dv;
    float *dg, *dbeta;
    std::int64_t gate_step;  // from head to head of g, beta, dg and dbeta, in tokens
    const float* dstate_in;
    float* dstate_out;
    const int* not_finite;
    std::int64_t each, segments, blocks;
    float* states;  // [blocks, segments + each, dk, dv]
};

// Writes `after` and dU.
void launch_backward_chunks(const BackwardChunks& x, cudaStream_t stream);
// Writes dQ, dK, dV, dg and dβ.
void launch_finish_chunks(const BackwardChunks& x, cudaStream_t stream);
// Writes all gradients, where something was not finite.
void launch_walks(const Walks& x, cudaStream_t stream);

// What arrives at the last state, where it stays until the walks have read it: a copy in `room`, of a state of all
// heads, if dstate is the same memory. null: zeros.
const float* kept_dstate(const GatedGradArgs& a, float* room, cudaStream_t stream);

}  // namespace causeway::gpu::gradient
