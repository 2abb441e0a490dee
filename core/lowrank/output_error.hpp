// How wrong the normalised output of attention is when its matrix is approximated (claims A9, A10).
#pragma once

#include "core/lowrank/error.hpp"
#include "core/lowrank/problem.hpp"

namespace causeway::lowrank {

// One head: a source of tiles of A = exp(Q Kᵀ) and of Δ = A - Ã.
struct Pair {
    ConstView<double> Q, K, B, C;  // Q times the scale
    const double* log_rows = nullptr;
    const double* query_block = nullptr;
    const double* key_block = nullptr;
    const double* exact_rows = nullptr;

    Index N() const { return Q.rows(); }

    void tile(Index i, Index m, Index j, Index n, Matrix<double>& A, Matrix<double>& delta) const;
};

// Errors of the output, all but the bounds of A10, which need norms of Δ; and what those bounds are made of.
struct OutputErrors {
    OutputError errors;
    double reach = 0;    // max_i √i diam_i / |d̃_i|
    double min_sum = 0;  // min_i |d̃_i|
};
OutputErrors output_errors(const Pair& p, const ConstView<double>& V, bool mask);

}  // namespace causeway::lowrank
