// The gradient of the general rule by its definition, one token after the other.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/gated/general/problem.hpp"

namespace causeway::gpu {

// The gradient of Σ o · dO + Σ S_N · dstate. Outputs are Float32, a head for every state (dq: for every query of one),
// tokens in rows, contiguous but that a head has `rows` of them, of which the pointers name the first that is written.
struct GeneralGradArgs {
    GeneralArgs in;         // o is not used; the state is where to start from, and is left as it is
    GeneralInput dO;        // [B, H · group, N, dv]
    std::int64_t rows = 0;  // at least in.N
    float* dq = nullptr;    // [B, H · group, rows, dk]
    float *dk = nullptr, *dv = nullptr;
    float *du = nullptr, *dw = nullptr;  // null without u and w
    float* da = nullptr;                 // [B, H, rows, gates]; null without a
    float* dstate = nullptr;  // [B, H, dk, dv]: in what arrives at the last state, out the gradient of the first
};

// Bytes of device memory: a state of every head for some 64 to 512 tokens, those within 512 at every eighth token (at
// every fourth where dk > 128), and sums over 32 columns of v for 512 tokens.
std::size_t general_recurrent_gradient_workspace(const GeneralGradArgs& a);

// With S_t, y_t as in gpu/gated/general/problem.hpp and G_t what arrives at S_t,
//   G_t += scale · q_t dO_tᵀ,  dq_t = scale · S_t dO_t,  dk_t = G_t v_t,  dv_t = G_tᵀ k_t,  da_t = Σ_columns G_t ⊙
//   S_{t-1}, du_t = -G_t y_t,  dy_t = -G_tᵀ u_t,  dw_t = S_{t-1} dy_t,  G_{t-1} = diag(a_t) G_t + w_t dy_tᵀ
// on FMA units, 32 columns of v to a thread block. States are made again from those that are kept; nothing is divided,
// so da is exact where a is 0. Launches on `stream` and returns; the same bits in every run. Throws Error on bad
// arguments.
void general_recurrent_gradient(const GeneralGradArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu
