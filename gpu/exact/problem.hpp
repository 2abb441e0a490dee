// What every method of causal linear attention computes on the GPU.
#pragma once

#include "core/calls/precision.hpp"
#include "gpu/kit/layout.hpp"

namespace causeway::gpu {

using causeway::Precision;

// O = (Q Kᵀ ⊙ M) V per batch and head, M[i,j] = γ^(i-j) for i >= j, else 0; q, k: [B, H, N, r], v, o: [B, H, N, d].
struct CausalArgs {
    const void *q = nullptr, *k = nullptr, *v = nullptr;
    void* o = nullptr;
    Type type = Type::BFloat16;  // of all four
    std::int64_t B = 1, H = 1, N = 0;
    int r = 0, d = 0;
    Strides q_stride, k_stride, v_stride, o_stride;
    const double* gamma = nullptr;  // on the host, one per head, in (0, 1]; null: all 1, the 0-1 mask
    float* state =
        nullptr;  // on the device, contiguous [B, H, r, d]: Σ_j γ^(N-j) k_jᵀ v_j, in and out; null: zeros, dropped
    Precision precision = default_precision;
    Workspace workspace;     // at least what <method>_workspace() says
    std::int64_t block = 0;  // tokens of a block, where the method can be given one (registry.hpp); 0: its own
    int splits = 0;  // lightning_attention_2, fleet and causal_dot_product, for tests: shares that all tokens of all
                     // heads are cut into; 0: chosen

    double decay_of(std::int64_t h) const { return gamma ? gamma[h] : 1.0; }
};

}  // namespace causeway::gpu
