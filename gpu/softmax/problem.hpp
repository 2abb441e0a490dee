// What softmax attention computes on the GPU (core/softmax/problem.hpp has the definition).
#pragma once

#include "gpu/kit/layout.hpp"

namespace causeway::gpu {

// o_i = Σ_j e^{s_ij - m_i} v_j / l_i, s_ij = scale · q_i·k_j, lse_i = m_i + log l_i. Causal: query i sees the keys 0
// ... M - N + i. q: [batch, heads · group, N, d], k: [batch, heads, M, d], v: [batch, heads, M, dv], o: [batch, heads ·
// group, N, dv]. Without any key o = 0 and lse = -Inf.
struct SoftmaxArgs {
    const void *q = nullptr, *k = nullptr, *v = nullptr;
    void* o = nullptr;
    Type type = Type::BFloat16;                       // of these four
    std::int64_t batch = 1, heads = 1, N = 0, M = 0;  // heads of k and v
    int group = 1, d = 0, dv = 0;
    Strides q_stride, k_stride, v_stride, o_stride;
    bool causal = true;
    float scale = 1;
    float* lse = nullptr;  // on the device, contiguous [batch, heads · group, N]; null: not wanted
    Workspace workspace;

    bool empty() const { return batch == 0 || heads == 0 || N == 0; }
    std::int64_t rows() const { return N * group; }  // of a head of k and v
};

}  // namespace causeway::gpu
