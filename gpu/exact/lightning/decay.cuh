// Powers of γ: of one distance, and of all that a thread's outputs are from the state.
#pragma once

#include "gpu/exact/lightning/work.cuh"

namespace causeway::gpu::la {

// γ^n, exact for n = 0 and for γ = 0 or 1.
__device__ __forceinline__ float power(float log2_gamma, int n) {
    return n == 0 ? 1.0f : exp2f(log2_gamma * static_cast<float>(n));
}

// γ^(distance from the state) of the tokens that a thread has in an output tile, i = 8n + 2(lane % 4) + {0, 1}.
struct OutputDecay {
    float low[2], step;  // of the two tokens among the eight nearest to the state; γ^8

    __device__ __forceinline__ void set(const Piece& p, int lane) {
        const int first = 2 * (lane % 4);
        low[0] = power(p.head.log2_gamma, p.reversed ? 8 - first : first + 1);
        low[1] = power(p.head.log2_gamma, p.reversed ? 7 - first : first + 2);
        step = power(p.head.log2_gamma, 8);
    }
    // o = diag(γ^distance) x, of transposed tiles.
    __device__ __forceinline__ void apply(const Piece& p, float (&o)[32], const float (&x)[32]) const {
        float up = 1.0f;
        const auto next = [&](int n) {
            const float w0 = low[0] * up, w1 = low[1] * up;
            o[4 * n] = x[4 * n] * w0, o[4 * n + 1] = x[4 * n + 1] * w1;
            o[4 * n + 2] = x[4 * n + 2] * w0, o[4 * n + 3] = x[4 * n + 3] * w1;
            up *= step;
        };
        if (p.reversed) {
#pragma unroll
            for (int n = 7; n >= 0; --n) next(n);
        } else {
#pragma unroll
            for (int n = 0; n < 8; ++n) next(n);
        }
    }
};

}  // namespace causeway::gpu::la
