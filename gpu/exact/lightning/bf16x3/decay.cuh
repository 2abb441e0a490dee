// Powers of γ for tiles of Float32, and the mask of their scores.
#pragma once

#include "gpu/exact/lightning/bf16x3/hi_lo.cuh"
#include "gpu/exact/lightning/decay.cuh"

namespace causeway::gpu::la {

// γ^distance of the tokens that a thread has: of values to the next state, and of outputs from the state.
struct Bf16x3Decay {
    float value[2], output[2], step, chunk_step;  // of the token pair nearest to the state; γ^8, γ^64

    __device__ __forceinline__ void set(const Piece& p, int lane) {
        const int first = 2 * (lane % 4);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            value[i] = power(p.head.log2_gamma, p.reversed ? first + i : 7 - first - i);
            output[i] = power(p.head.log2_gamma, p.reversed ? 8 - first - i : first + i + 1);
        }
        step = power(p.head.log2_gamma, 8);
        chunk_step = power(p.head.log2_gamma, chunk);
    }
    // Keeps the compiler from making all weights of a chunk before the loop over chunks: there are no registers for
    // them.
    __device__ __forceinline__ void renew() { ptx::forget(step); }
    // f(n, γ^8k) for the eight tokens 8n ... in order of their distance, k = 0, 1 ...
    template <class F>
    __device__ __forceinline__ void outwards(bool from_first, float up, const F& f) const {
        if (from_first) {
#pragma unroll
            for (int n = 0; n < 8; ++n) f(n, up), up *= step;
        } else {
#pragma unroll
            for (int n = 7; n >= 0; --n) f(n, up), up *= step;
        }
    }
    __device__ __forceinline__ void weigh_outputs(const Piece& p, float (&o)[32]) const {
        outwards(!p.reversed, 1.0f, [&](int n, float up) {
            const float w0 = output[0] * up, w1 = output[1] * up;
            o[4 * n] *= w0, o[4 * n + 1] *= w1, o[4 * n + 2] *= w0, o[4 * n + 3] *= w1;
        });
    }
    // V'ᵀ = vᵀ γ^(63-j) · f, reversed vᵀ γ^j · f, as hi and lo.
    __device__ __forceinline__ void weigh_values(const Piece& p, float f, const float (&v)[32], uint32_t (&hi)[16],
                                                 uint32_t (&lo)[16]) const {
        outwards(p.reversed, f, [&](int n, float up) {
            const float w0 = value[0] * up, w1 = value[1] * up;
            to_hi_lo(v[4 * n] * w0, v[4 * n + 1] * w1, hi[2 * n], lo[2 * n]);
            to_hi_lo(v[4 * n + 2] * w0, v[4 * n + 3] * w1, hi[2 * n + 1], lo[2 * n + 1]);
        });
    }
};

// The mask of a score tile of 64 queries and keys: blocks of 16 by 16 are seen wholly, not at all, or (on the diagonal)
// in part.
struct Bf16x3Mask {
    float far[2], near[2], step, step2;  // γ^(8 + distance), γ^max(distance, 0), γ^8, γ^16
    uint32_t seen;                       // of a pair on the diagonal, as ones
    bool reversed;

    __device__ __forceinline__ void set(const Piece& p, int lane) {
        seen = 0;
        reversed = p.reversed;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int n = lane / 4 - 2 * (lane % 4) - i, back = p.reversed ? -n : n;
            far[i] = power(p.head.log2_gamma, 8 + back);
            near[i] = power(p.head.log2_gamma, max(back, 0));
            if (back >= 0) seen |= 0xFFFFu << (16 * i);
        }
        step = power(p.head.log2_gamma, 8), step2 = step * step;
    }
    // Scores of this warp's 16 queries and 16 keys, in pairs: [8 keys][8 queries]; `ahead` blocks of 16 keys lie
    // between.
    __device__ __forceinline__ void apply(int ahead, const float* x, uint32_t (&hi)[4], uint32_t (&lo)[4]) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) hi[i] = lo[i] = 0;
        if (ahead < 0) return;
        const auto far_pair = [&](int i, float up) {
            to_hi_lo(x[2 * i] * (far[0] * up), x[2 * i + 1] * (far[1] * up), hi[i], lo[i]);
        };
        if (ahead == 0) {
#pragma unroll
            for (int i = 0; i < 4; i += 3) {
                to_hi_lo(x[2 * i] * near[0], x[2 * i + 1] * near[1], hi[i], lo[i]);
                hi[i] &= seen, lo[i] &= seen;
            }
            if (reversed) far_pair(2, 1.0f);
            else far_pair(1, 1.0f);
        } else {
            const float base = ahead == 1 ? 1.0f : ahead == 2 ? step2 : step2 * step2;
            const float middle = base * step, farthest = base * step2;
            far_pair(0, middle), far_pair(3, middle);
            far_pair(1, reversed ? base : farthest), far_pair(2, reversed ? farthest : base);
        }
    }
};

}  // namespace causeway::gpu::la
