// The two kernels of the gradient of the gated family: the gradient of the state chunk by chunk, and everything that
// then is left. gated_chunks/README.md says what they do and what the letters mean.
#pragma once

#include "gpu/gated/chunks.hpp"

namespace causeway::gpu::gradient {

// A part of the tokens with the gradients of all inputs. part.states and part.Y are there, and its scores with three
// matrices where there is a delta rule.
struct BackwardPart {
    gated::Part part;
    gated::Operand dO, dq, dk, dv;
    float *dg, *dbeta;
    const float* dstate_in;  // with respect to the state after the part; null: zeros
    float* dstate_out;       // before it; null: dropped
    float* after;            // [head, chunk, dk, dv]: with respect to the state after each chunk
    float* dY;               // [head, chunk·C, dv], with the delta rule
};

// Writes dV, and `after` and dY for the other kernel.
void launch_backward_sweep(const BackwardPart& x, cudaStream_t stream);
// Writes dQ, dK, dg and dβ.
void launch_finish(const BackwardPart& x, cudaStream_t stream);

}  // namespace causeway::gpu::gradient
