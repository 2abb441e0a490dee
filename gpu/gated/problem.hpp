// What the gated and delta-rule family computes on the GPU (core/gated/problem.hpp has the recurrence).
#pragma once

#include "gpu/kit/layout.hpp"

namespace causeway::gpu {

// The projection that gates are made of within a kernel, as decay_gate makes them (core/around/decay_gate.hpp), where a
// form can (registry.hpp); contiguous [B, H, N, gates] on the device like g.
struct Projection {
    const void* a = nullptr;  // null: gates are given
    Type type = Type::BFloat16;
    const float* A_log = nullptr;  // [heads]
    const float* bias = nullptr;   // [heads, gates]; null: none
    std::int64_t heads = 1;        // H, but where heads that share keys or queries are batch entries of their own
    float lower_bound = 0;         // 0: none
};

// S' = diag(e^{g_t}) S_{t-1},  u_t = v_t or β_t (v_t - S'ᵀ k_t),  S_t = S' + k_t u_tᵀ,  o_t = scale · S_tᵀ q_t.
// q: [B, H · group, N, dk], k: [B, H, N, dk], v: [B, H, N, dv], o: [B, H · group, N, dv].
struct GatedArgs {
    const void *q = nullptr, *k = nullptr, *v = nullptr;
    void* o = nullptr;
    Type type = Type::BFloat16;  // of these four
    std::int64_t B = 1, H = 1, N = 0;
    int group = 1, dk = 0, dv = 0;
    Strides q_stride, k_stride, v_stride, o_stride;
    int gates = 0;                // columns of g: 0 (no gate), 1 (one per head) or dk (one per key channel)
    const float* g = nullptr;     // on the device, contiguous [B, H, N, gates], <= 0, -Inf too; null: no gate
    const float* beta = nullptr;  // on the device, contiguous [B, H, N]; null: no delta rule
    float* state = nullptr;       // on the device, contiguous [B, H, dk, dv], in and out; null: zeros, dropped
    float scale = 1;
    Projection projection;  // where given, g is null
    float length_eps = 0;  // above 0 q and k are first divided by √(Σ x² + length_eps), where a form can (registry.hpp)
    bool cut_together = false;  // packed sequences need not have the bits of calls on each alone
    Workspace workspace;
};

}  // namespace causeway::gpu
