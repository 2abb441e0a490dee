// FleetAttention on the GPU as its formula, by Thrust.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/exact/problem.hpp"

namespace causeway::gpu {

// Bytes of device memory that the call needs besides its tensors: at most some 136 MB whatever N, and a state for each
// of up to 256 heads.
std::size_t fleet_thrust_workspace(const CausalArgs& a);

// o = Σ_j diag(q_j) cumsum(diag(k_j) v), q_j and k_j columns: rank after rank a scan-by-key along the tokens of every
// column of every head (discounted by γ where there is decay), each place of which then adds q_j times its sums to o.
// What is scanned is sums of four tokens; tokens go by splits of 128 MB in all, the state carried from one to the
// next. Reads v twice and updates o for each of the r ranks: to be read, some 35 times slower than fleet(). Float32
// sums, in an order that the scan chooses: two runs may differ in the last bits. All memory comes from the workspace.
// r, d <= 256. Launches on `stream` and returns; reads a.gamma before it does. Throws Error on bad arguments. 000 eq.
// 7, leet eq. 5 (core/exact/fleet.hpp, fleet_untiled).
void fleet_thrust(const CausalArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu
