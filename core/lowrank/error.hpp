// How wrong B Cᵀ is as an attention matrix, with and without the causal mask, beside the bounds of claims A1, A2, A9,
// A10.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/tensor/tensor.hpp"

namespace causeway {

struct LowRankErrorOptions {
    bool mask = true;             // also with the causal mask M
    std::optional<double> scale;  // default 1/sqrt(d)
    std::optional<Tensor> v;      // [b, h, N, w]: the error of the normalised attention output too
    std::map<std::string, Tensor>
        extras;               // what low_rank returned beside B and C: log_rows, query_block and key_block, exact_rows
    double tolerance = 1e-6;  // relative residual at which the iteration for an operator norm stops
    Index iterations = 300;   // at most so many steps of it
};

// A norm of the error Δ = A − Ã, A = exp(scale q kᵀ), of M ⊙ Δ, and of A and M ⊙ A themselves.
struct MaskedNorms {
    double error = 0, error_masked = 0, matrix = 0, matrix_masked = 0;
    double ratio() const { return error > 0 ? error_masked / error : 0; }  // without any error 0: the mask adds none
};

// Errors of O = D⁻¹ A v, D the row sums of A; masked: of M ⊙ A. Norms over all tokens. Where a row sum of Ã is 0 there
// is no output, and its error and bounds are infinite.
struct OutputError {
    double error = 0, output = 0;  // |Õ − O|_F, |O|_F, without mask
    double error_masked = 0, output_masked = 0;
    // Of the masked ones: Σ_i (|Δ_i|₁ diam_i / |d̃_i|)² under the root, with diam_i the diameter of v_1 … v_i (A9), and
    // the largest share of its own bound that the error of a row has, at most 1 up to rounding (rows whose bound is
    // below the rounding error of their own output are left out).
    double row_bound = 0, row_share = 0;
    double frobenius_bound = 0;  // max_i (√i diam_i / |d̃_i|) |A − Ã|_F (A10)
    double operator_bound = 0;   // 2 √N U_N |A − Ã|₂ R / min_i |d̃_i|, R the radius around the mean of v (A10)
    double min_sum = 0;          // min_i |d̃_i| / d_i: how near a row sum comes to vanish
};

struct LowRankError {
    MaskedNorms frobenius, operator_norm;
    double operator_constant = 0;  // U_N: the bound on operator_norm.ratio() (A2); that of Frobenius norms is 1 (A1)
    double residual = 0;           // the largest relative residual with which an operator norm stopped
    std::optional<OutputError> output;
};

// One for each head, in the order of memory; `all` takes the heads as the blocks of one block-diagonal matrix, for
// which the bounds hold too. q, k [b, h, N, d], B, C [b, h, N, r], or without leading dimensions. All in Float64.
// Operator norms by Lanczos' iteration (Golub and Kahan, fully reorthogonalised) on products with Δ, stopped at
// |residual| <= tolerance · value, from a fixed start; the relative error is below the residual, and of its square with
// a gap. N² doubles up to N = 2048; beyond, tiles only: O(N²(d + r)) a step, memory O(N · steps). Throws Error naming
// the argument, also for a B or C that is not finite.
struct LowRankErrors {
    LowRankError all;
    std::vector<LowRankError> heads;
};
LowRankErrors lowrank_error(const Tensor& q, const Tensor& k, const Tensor& B, const Tensor& C,
                            const LowRankErrorOptions& = {});

// Norms of X and of its lower triangle, X [N, N] of finite numbers. Only `error` and `error_masked` are set.
struct MatrixNorms {
    MaskedNorms frobenius, operator_norm;
};
MatrixNorms masked_norms(const Tensor& X);

// U_n = (1 + s_n)/2, s_n = (1/n) Σ_m 1/sin((2m+1)π/2n): the lower triangle of an n × n matrix has at most U_n times its
// operator norm, and U_n <= 1 + ln(n)/π (claims A2). By the sum, and for large n by its expansion (2/π)(ln n + γ +
// ln(8/π)) + π/(72n²) − …, relative error below 1e-14. O(1). Throws Error for n < 1.
double masking_constant(Index n);

// Matrices whose lower triangle has an operator norm larger by (ln n)/π + O(1), Float64 [n, n] (claims A2, A6):
//   "W"  1/(n sin(π(i−j+1/2)/n)), orthogonal; ratio at least (1 + 1/n) s_n / 2
//   "G"  1/(i−j+1/2)
//   "H"  1/(i−j), 0 on the diagonal
// Throws Error for another name and n < 1.
Tensor masked_worst_case(Index n, const std::string& which);

}  // namespace causeway
