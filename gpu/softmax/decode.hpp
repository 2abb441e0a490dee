// Flash-decoding: few queries, many keys.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/softmax/problem.hpp"

namespace causeway::gpu {

// Softmax attention (gpu/softmax/problem.hpp) where time goes into reading k and v: the keys of a head are split over
// blocks, each with its own running maximum (Dao et al. 2023, "Flash-Decoding for long-context inference"), and the
// splits merged in a fixed order by a second kernel. One row (a query of one head), for Float32 up to 4 rows that share
// k and v: on FMA units with weights in Float32. More rows: flash_attention, which splits the keys where there are few
// queries. O(rows·M·(d + dv)) time; a workspace of splits · rows · (dv + 1) floats a head. The result depends on the
// number of multiprocessors (which sets the splits), on nothing else. Throws Error naming what is wrong with the sizes
// or the workspace.
std::size_t flash_decoding_workspace(const SoftmaxArgs&);
void flash_decoding(const SoftmaxArgs&, cudaStream_t);

// One query of each head (N = 1) over a cache of keys that grows, with room for M: the first *length + 1 of them, where
// `length` is on the device and is read when the kernel runs, so that a captured graph serves every position. Up to 4
// heads that share k and v read them together; `causal` and `lse` are not looked at. The splits are those of M.
std::size_t cached_decoding_workspace(const SoftmaxArgs&);
void cached_decoding(const SoftmaxArgs&, const std::int32_t* length, cudaStream_t);

namespace softmax {

// The rows that the kernel on FMA units has for a type, and the same with the keys in so many splits (0: chosen).
constexpr int max_decoded_rows(Type t) { return t == Type::Float32 ? 4 : 1; }
std::size_t decode_workspace(const SoftmaxArgs&, int splits = 0);
void decode(const SoftmaxArgs&, int splits, cudaStream_t);

}  // namespace softmax
}  // namespace causeway::gpu
