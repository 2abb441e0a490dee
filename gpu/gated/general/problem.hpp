// The general rule of the gated family on the GPU (core/gated/general/problem.hpp has what it computes).
#pragma once

#include "gpu/gated/sequences.hpp"
#include "gpu/kit/layout.hpp"

namespace causeway::gpu {

// One of the inputs: [B, H · group / shared, N, width] for q, [B, H / shared, N, width] for the others, so that
// `shared` consecutive heads read one.
struct GeneralInput {
    const void* data = nullptr;
    Type type = Type::Float32;
    Strides stride;
    int shared = 1;
};

// y_t = S_{t-1}ᵀ w_t,  S_t = diag(a_t) S_{t-1} - u_t y_tᵀ + k_t v_tᵀ,  o_t = scale · S_tᵀ q_t.
// q, k, u, w have width dk, v has dv; each has a type of its own, which may be Float32 where others have 16 bits.
struct GeneralArgs {
    GeneralInput q, k, v;
    GeneralInput u, w;  // both null: nothing is taken out
    GeneralInput a;     // of width `gates`
    int gates = 0;      // factors a token: 0 (all are 1), 1 (one for the state) or dk (one for each of its rows)
    void* o = nullptr;  // [B, H · group, N, dv]
    Type type = Type::BFloat16;
    Strides o_stride;
    std::int64_t B = 1, H = 1, N = 0;
    int group = 1, dk = 0, dv = 0;
    float* state = nullptr;  // on the device, contiguous [B, H, dk, dv], or of packed sequences [count, H, dk, dv]
    float scale = 1;
    Workspace workspace;
};

}  // namespace causeway::gpu
