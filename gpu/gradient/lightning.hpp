// The gradient of causal linear attention on the GPU, by Lightning Attention-2.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/exact/problem.hpp"

namespace causeway::gpu {

// Bytes of device memory that the call needs besides its tensors.
std::size_t lightning_grad_workspace(const CausalArgs& a);

// From dO, with the strides of o, to dq, dk and dv, with those of q, k and v. For O = (Q Kᵀ ⊙ M) V every one of them is
// a causal linear attention again, two of them in reversed time (claims G9):
//
//   dQ = (dO Vᵀ ⊙ M) K,   dK = (V dOᵀ ⊙ Mᵀ) Q,   dV = (K Qᵀ ⊙ Mᵀ) dO
//
// a.o is not read; a.state must be null. Otherwise as lightning_attention_2: one launch where r and d are padded alike
// (both at most 64, or neither), two where not. Throws Error on bad arguments.
void lightning_grad(const CausalArgs& a, const void* dO, void* dq, void* dk, void* dv, cudaStream_t stream);

// Whether it runs on tensor cores, and lightning_grad_state, with a workspace of its own, too. That is the gradient
// with respect to a state before the first token, Σ_j q_jᵀ dO_j, to dstate [B, H, r, d]; without decay, 16-bit
// elements.
bool lightning_grad_reaches(const CausalArgs& a, const void* dO, void* dq, void* dk, void* dv);
std::size_t lightning_grad_state_workspace(const CausalArgs& a, const void* dO);
void lightning_grad_state(const CausalArgs& a, const void* dO, float* dstate, cudaStream_t stream);

}  // namespace causeway::gpu
