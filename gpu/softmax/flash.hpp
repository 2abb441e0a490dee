// Flash attention: softmax attention in tiles, never more scores than those of a tile.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/softmax/problem.hpp"

namespace causeway::gpu {

// Softmax attention (gpu/softmax/problem.hpp) by online softmax over tiles of keys (Dao et al. 2022). Any N and M, also
// causal with N > M (the first rows see no key), grouped queries, widths to 256. BFloat16 and Float16 on tensor cores
// with the weights rounded to the type of v; Float32 on FMA units in Float32. Where there are too few queries to occupy
// the device, the keys are split and merged as in flash_decoding. O(rows·M·(d + dv)) time; no workspace unless keys are
// split. Throws Error naming what is wrong with the sizes or the workspace.
std::size_t flash_attention_workspace(const SoftmaxArgs&);
void flash_attention(const SoftmaxArgs&, cudaStream_t);

namespace softmax {

// The same with the keys in so many splits (0: chosen), on kernels that every device has.
std::size_t flash_portable_workspace(const SoftmaxArgs&, int splits = 0);
void flash_portable(const SoftmaxArgs&, int splits, cudaStream_t);

// On warpgroup products, with the keys unsplit. hopper_reaches() says which calls flash_on_hopper can compute: 16-bit
// types, d = dv = 64 or 128, M > 0, tensors that TMA reaches (flash/README.md).
bool hopper_reaches(const SoftmaxArgs&);
void flash_on_hopper(const SoftmaxArgs&, cudaStream_t);

}  // namespace softmax
}  // namespace causeway::gpu
