// States of the recurrence in memory: S_t = γ S_{t-1} + k_tᵀ v_t, and what queries read from them.
#pragma once

#include "gpu/exact/pieces.hpp"

namespace causeway::gpu::prefix {

// Tokens [first, first + tokens) of the sequence, in segments of `length`.
struct Part {
    std::int64_t first, tokens, length;
    std::int64_t segments() const { return (tokens + length - 1) / length; }
};

// D [bh][segment][r][d]: the state after each segment that starts from zero, Σ_t γ^(n-1-t) k_tᵀ v_t. On FMA units, as
// all here.
void segment_sums(const CausalArgs& a, const pieces::BatchHeads& l, const Part& part, float* D, cudaStream_t stream);

// S [bh][token][r][d]: the state after every token. before [bh][segment][r][d]: the state before each segment. last
// [bh][r][d], which may be `before` where there is one segment: the state after the last token; null: not wanted.
void states(const CausalArgs& a, const pieces::BatchHeads& l, const Part& part, const float* before, float* S,
            float* last, cudaStream_t stream);

// o_t = q_t S_t for the tokens of the part.
void outputs(const CausalArgs& a, const pieces::BatchHeads& l, const Part& part, const float* S, cudaStream_t stream);

}  // namespace causeway::gpu::prefix
