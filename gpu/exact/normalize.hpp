// The divisor of normalised attention on the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/exact/problem.hpp"

namespace causeway::gpu {

// Bytes of device memory that normalize() needs besides its tensors: r floats for every 128 tokens of a head.
std::size_t normalize_workspace(const CausalArgs& a);

// o_i ← o_i / D_i in place, D_i = Σ_j M_ij (q_i·k_j) = q_i·z_i with z_i = γ z_{i-1} + k_i: what makes the output of any
// method that of normalised attention. z_state: on the device, contiguous [B, H, r], the last column Σ_j γ^(N-j) k_j of
// a normalised state, in and out; null: zeros, dropped. Sums and the division in Float32; D = 0 divides as IEEE does,
// to ±Inf or NaN, as core's methods do. a.v and a.state are not read. r, d <= 256. Launches on `stream` and returns;
// reads a.gamma before it does. Throws Error on bad arguments.
void normalize(const CausalArgs& a, cudaStream_t stream, float* z_state = nullptr);

// z_state ← γ^N z_state + Σ_j γ^(N-j) k_j alone, in the same bits; a.q and a.o are not read.
void key_sums(const CausalArgs& a, cudaStream_t stream, float* z_state);

}  // namespace causeway::gpu
