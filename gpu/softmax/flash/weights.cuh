// Scores to weights, in the registers of a consumer: the online softmax (gpu/softmax/online.cuh) over tiles of keys.
#pragma once

#include "gpu/kit/pack.cuh"
#include "gpu/softmax/flash/layout.cuh"
#include "gpu/softmax/online.cuh"

namespace causeway::gpu::softmax::flash {

// Two queries of a thread, 8 apart. Of a tile [64 queries, 128 keys] of scores it has the keys 8 i + 2 (lane % 4) and
// the next one, at 4 i + 2 r and 4 i + 2 r + 1 for query r.
struct Weights {
    float s[tile_tokens / 2];       // scores, then weights
    uint32_t p[tile_tokens / 4];    // weights rounded to the type of v: operand A
    float max[2], sum[2], back[2];  // back: what is summed so far is to be multiplied by it
    int32_t seen[2], seen_by_all;   // how many keys each of the two queries sees, and every query of the warpgroup
    float scale;                    // |scale| · log2 e
    bool negative;                  // the scale is: the running maximum is of -q·k

    __device__ __forceinline__ Weights(const Block& block, int32_t first, int32_t query)
        : max{minus_infinity, minus_infinity},
          sum{0, 0},
          seen{block.limit(query), block.limit(query + 8)},
          seen_by_all(block.limit(first)),
          scale(fabsf(block.c.scale_log2)),
          negative(block.c.scale_log2 < 0) {}

    // Masks the scores of tile j, raises the running maxima, turns s into weights, and updates sum and sets back.
    __device__ __forceinline__ void weigh(int32_t j, int lane) {
        if (negative) {
#pragma unroll
            for (int i = 0; i < tile_tokens / 2; ++i) s[i] = -s[i];
        }
        if ((j + 1) * tile_tokens > seen_by_all) {
#pragma unroll
            for (int i = 0; i < tile_tokens / 2; ++i) {
                if (j * tile_tokens + i / 4 * 8 + 2 * (lane % 4) + i % 2 >= seen[i % 4 / 2]) s[i] = minus_infinity;
            }
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float now = max[r], added = 0;
#pragma unroll
            for (int i = 0; i < tile_tokens / 8; ++i) now = fmaxf(now, fmaxf(s[4 * i + 2 * r], s[4 * i + 2 * r + 1]));
            now = max_of_four(now);
            const float shift = shift_of(now, scale);
            back[r] = ptx::ex2_approx(__fmul_rn(max[r], scale) - shift);
            max[r] = now;
#pragma unroll
            for (int i = 0; i < tile_tokens / 8; ++i) {
#pragma unroll
                for (int e = 4 * i + 2 * r; e < 4 * i + 2 * r + 2; ++e)
                    s[e] = ptx::ex2_approx(fmaf(s[e], scale, -shift)), added += s[e];
            }
            sum[r] = fmaf(sum[r], back[r], added);
        }
    }
    // p = the weights s, rounded: once the product that reads p has ended.
    template <class E>
    __device__ __forceinline__ void round() {
#pragma unroll
        for (int i = 0; i < tile_tokens / 4; ++i) p[i] = pack(E{}, s[2 * i], s[2 * i + 1]);
    }
};

}  // namespace causeway::gpu::softmax::flash
