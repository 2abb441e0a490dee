// What the parallel form does besides products: gates between all pairs of tokens, and the triangles of the delta rule.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace causeway::gpu::gated {

// The gates of the tokens up to one: how many forget everything, and the sum of the others.
struct GateSum {
    double sum;
    std::int64_t resets;
};

// sums [bh][N] of g [bh][N].
void sum_gates(const float* g, std::int64_t batch_heads, std::int64_t N, GateSum* sums, cudaStream_t stream);

// S [bh][rows][columns], rows from token `row` on, columns from the first: S ⊙ Λ where j <= i, 0 elsewhere and where
// Λ is 0. sums: null: Λ = 1.
void gate_scores(const GateSum* sums, std::int64_t batch_heads, std::int64_t N, std::int64_t row, std::int64_t rows,
                 std::int64_t columns, float* S, cudaStream_t stream);

// What rows of tokens are multiplied by: one factor; e, the gates up to and with the token's own; w, those after it.
enum class Decay { none, up_to, after };

// x [bh][rows][width] in place, `next` elements from one bh to the next: rows of tokens from `row` on times
// `factor` and their decay.
struct Rows {
    float* x;
    std::int64_t batch_heads, next, row, rows, width;
};
void weigh(const GateSum* sums, std::int64_t N, const Rows& x, Decay decay, float factor, cudaStream_t stream);

// Rows of one step of the substitution.
constexpr std::int64_t solved_rows = 64;

// U_t ← β_t (U_t - X_t - Σ_{s<t} M_ts U_s) for `rows` <= solved_rows tokens from `row` on: M [bh][rows][rows], X
// [bh][rows][dv], U [bh][N][dv], beta [bh][N].
void substitute(const float* M, const float* X, const float* beta, std::int64_t batch_heads, std::int64_t N,
                std::int64_t row, std::int64_t rows, int dv, float* U, cudaStream_t stream);

}  // namespace causeway::gpu::gated
