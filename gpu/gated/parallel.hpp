// The gated and delta-rule family in its parallel form: all pairs of tokens, as products of matrices.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/gated/problem.hpp"

namespace causeway::gpu {

// Bytes of device memory that the call needs besides its tensors: N(dk + dv) scalars of a head, and some rows of its N²
// scores; of as many heads together as take 512 MB.
std::size_t gated_parallel_workspace(const GatedArgs& a);

// The parallel form of core/gated/chunkwise.hpp, the sequence as one chunk, by cuBLAS's batched products of Float32:
//   A = Λ ⊙ Q Kᵀ,  O = scale ((e ⊙ Q) S_0 + A U),  S = e_N ⊙ S_0 + (w ⊙ K)ᵀ U,
// U = V, or with the delta rule the solution of (I + T) U = diag(β) (V - (e ⊙ K) S_0), T = diag(β) (Λ ⊙ K Kᵀ below the
// diagonal), by forward substitution in blocks of 64 rows. Rows of scores are made, used and dropped. Λ_ij, e and w are
// exponentials of differences of summed gates, the sums in Float64; gates whose exponential is 0 in Float32 are counted
// apart, so that those behind them stay exact. O(N² (dk + dv)) time. At most one gate a head: with a gate a channel Λ
// stands inside the inner products. NaN and Inf reach earlier tokens. dk, dv <= 256. Launches on `stream` and returns;
// may be captured into a CUDA graph. Throws Error on bad arguments.
void gated_parallel(const GatedArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu
