// What the two kernels of this folder are told, and what goes between them. README.md has the letters.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include "gpu/gated/arguments.hpp"

namespace causeway::gpu::channels {

constexpr int C = 64;          // tokens of a chunk
constexpr int blocks = C / 16;  // sub-blocks of 16 tokens in it
constexpr int sweep_columns = 32;

inline int padded_rows(int dk) { return dk <= 64 ? 64 : 128; }
inline int padded_columns(int dv) { return (dv + sweep_columns - 1) / sweep_columns * sweep_columns; }

// Tokens [first, first + tokens) of every head. Tiles between the kernels, for each head and chunk one after the other:
// Kw, W [64][DK]; Qe [group][64][DK]; A [group][64][64]; U0 [64][DV]; last [DK].
struct Part {
    gated::Call call;
    std::int64_t first, tokens;
    int chunks, DK, DV;
    __nv_bfloat16 *Kw, *W, *Qe, *A, *U0;  // W and U0 with the delta rule alone
    float* last;
    const float* state_in;  // [all heads, dk, dv]; null: zeros
    float* state_out;       // null: dropped
};

void launch_prepare(const Part& p, cudaStream_t stream);
void launch_sweep(const Part& p, cudaStream_t stream);

}  // namespace causeway::gpu::channels
