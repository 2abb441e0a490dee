// Lightning Attention-2 on the GPU: intra-chunk by masked scores, inter-chunk by the carried state, both on tensor
// cores.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/exact/problem.hpp"

namespace causeway::gpu {

// Bytes of device memory that the call needs besides its tensors; 0 is common without a state.
std::size_t lightning_workspace(const CausalArgs& a);

// Launches on `stream` and returns; reads a.gamma before it does. May be captured into a CUDA graph. The running state,
// scores and outputs are summed in Float32. On Hopper, with r, d <= 128 and rows, strides and addresses in multiples of
// 16 bytes, on tensor cores: BFloat16 and Float16 operands of the products are rounded once, Float32 ones are
// sums of two BFloat16 (bf16x3, relative error about 7e-6), for Precision::tf32 too. Everything else, Float32 with
// Precision::exact, and all up to r, d = 256, runs on FMA units, many times slower. NaN and Inf never reach earlier
// tokens; in Float32 on tensor cores Inf counts as NaN, and later tokens see either only as far as the decay reaches
// (2^-24). Throws Error on bad arguments. Qin et al. 2024, "Lightning Attention-2".
void lightning_attention_2(const CausalArgs& a, cudaStream_t stream);

// The same in two steps, for the part of a sequence whose state before it is known last: lightning_states queues what
// does not depend on that state, lightning_outputs all else, from a.state, which every such call has. The arguments are
// the same in both but for the state, and a.workspace, of lightning_steps_workspace bytes, is left alone between them.
// with_after: the first step also makes `after` [B, H, r, d], the states after the last token as if zeros were before
// the first; N is then a multiple of 64, or no decay is given. Where lightning_in_steps says so: 16-bit elements on
// tensor cores.
bool lightning_in_steps(const CausalArgs& a);
std::size_t lightning_steps_workspace(const CausalArgs& a, bool with_after);
void lightning_states(const CausalArgs& a, float* after, cudaStream_t stream);
void lightning_outputs(const CausalArgs& a, bool with_after, cudaStream_t stream);

}  // namespace causeway::gpu
