// What the parallel form does besides products: gates between all pairs of tokens, and the triangles of the delta rule.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/kit/rows.hpp"

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

// What the outputs of some rows of queries are sums of, all Float32: X [bh][rows][dv] the outputs, q [bh][rows][dk]
// times the scale, k [bh][N][dk], U [bh][N][dv], state [bh][dk][dv] before the first token or null, sums as above.
struct Outputs {
    const float *X, *q, *k, *U, *state;
    const GateSum* sums;
    std::int64_t N;
    int dk, dv;
};
// Those rows of o = X, rounded. Elements that are not finite are summed again over the tokens that the row sees: a
// product of matrices lets such a value of U reach rows before its token.
void scatter_outputs(const Outputs&, void* o, Type, Strides, const RowRange&, cudaStream_t stream);

}  // namespace causeway::gpu::gated
