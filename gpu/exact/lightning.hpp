// Lightning Attention-2 on the GPU: intra-chunk by masked scores, inter-chunk by the carried state, both on tensor cores.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "gpu/base/tensor_map.hpp"

namespace causeway::gpu {

// O = (Q Kᵀ ⊙ M) V per batch and head, M[i,j] = γ^(i-j) for i >= j, else 0; q, k: [B, H, N, r], v, o: [B, H, N, d].
struct LightningArgs {
    const void *q = nullptr, *k = nullptr, *v = nullptr;
    void* o = nullptr;
    Type type = Type::BFloat16;  // of all four
    std::int64_t B = 1, H = 1, N = 0;
    int r = 0, d = 0;
    Strides q_stride, k_stride, v_stride, o_stride;
    const double* gamma = nullptr;  // on the host, one per head, in (0, 1]; null: all 1, the 0-1 mask
    void* workspace = nullptr;      // on the device, at least lightning_workspace() bytes, 16-byte aligned
    std::size_t workspace_bytes = 0;
    int stretches = 0;  // pieces that all tokens of all heads are cut into, for tests; 0: chosen. Each count gives the same but for rounding
};

// Strides of a contiguous tensor [B, H, N, width].
constexpr Strides contiguous(std::int64_t H, std::int64_t N, int width) { return {H * N * width, N * width, width}; }

// Bytes of device memory that the call needs besides its tensors; 0 is common.
std::size_t lightning_workspace(const LightningArgs& a);

// Launches on `stream` and returns; reads a.gamma before it does. May be captured into a CUDA graph. The running state, scores
// and outputs are summed in Float32. On Hopper, with r, d <= 128 and rows, strides and addresses in multiples of 16 bytes, on tensor
// cores: BFloat16 and Float16 operands of the products are rounded once, Float32 ones are split into two BFloat16 (bf16x3, relative
// error about 7e-6). Everything else, up to r, d = 256, runs on FMA units, many times slower. At most 256 heads. NaN and Inf reach
// earlier tokens of the same 64. Throws Error on bad arguments.
// Qin et al. 2024, "Lightning Attention-2".
void lightning_attention_2(const LightningArgs& a, cudaStream_t stream);

}  // namespace causeway::gpu
