// FleetAttention on the GPU as its formula, by Thrust.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/exact/problem.hpp"

namespace causeway::gpu {

// Bytes of device memory that the call needs besides its tensors: 20 for every element of o, and what the scan asks for.
std::size_t fleet_thrust_workspace(const CausalArgs& a);

// o = Σ_j diag(q_j) cumsum(diag(k_j) v), q_j and k_j columns: rank after rank a scan-by-key along the tokens of every column of every head
// (discounted by γ where there is decay), then o += q_j times it. Reads v and updates o r times: to be read, and for small sizes. Float32
// sums, in an order that the scan chooses: two runs may differ in the last bits. All memory comes from the workspace. r, d <= 256.
// Launches on `stream` and returns; reads a.gamma before it does. Throws Error on bad arguments.
// 000 eq. 7, leet eq. 5 (core/exact/fleet.hpp, fleet_untiled).
void fleet_thrust(const CausalArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu
