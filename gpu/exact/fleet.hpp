// FleetAttention on the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/exact/problem.hpp"

namespace causeway::gpu {

// Bytes of device memory that the call needs besides its tensors: 0 unless the sequence is cut, then B·H·r·d floats for
// each piece (register_tile.hpp), 64 MiB at most unless `splits` is given. It depends on the precision, and on whether
// k and v lie in rows of whole pieces of 16 bytes.
std::size_t fleet_workspace(const CausalArgs& a);

// o = Σ_j diag(q_j) cumsum(diag(k_j) v), q_j and k_j columns, the sum discounted by γ where there is decay: in tiles of
// 16 tokens, and through a few tokens of one rank by rank, 32 or 64 running sums x_j of every column at a time, all
// kept in registers from tile to tile; their outputs stay in registers from rank to rank. No atomics, nothing of o is
// read. On FMA units in Float32, but for states before cuts, 2Nrd multiply-adds a head with and without decay; the
// sequence is cut as causal_dot_product cuts it. r, d <= 256. Launches on `stream` and returns; reads a.gamma before it
// does. Throws Error on bad arguments. 000 Algorithm 1, leet Algorithm 5 (core/exact/fleet.hpp).
void fleet(const CausalArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu
