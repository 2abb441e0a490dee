// Normalised causal attention whose matrix is approximated, over the reals (claims A9, A10).
#pragma once

#include "core/bounds/claim.hpp"

namespace causeway::bounds {

// A and its approximation Ã [N, N], of which the lower triangles count, and values V [N, d].
struct Approximated {
    Matrix A, At, V, off;  // off: Õ - O, from extended precision
    Point d, dt;           // sums of rows
    Point diameters;       // diam_i = max_{j,k<=i} |v_j - v_k|

    Approximated(Matrix A, Matrix At, Matrix V);

    Index n() const { return A.rows(); }
    double diameter(Index i) const { return diameters[static_cast<std::size_t>(i)]; }
    double difference(Index i) const { return (A - At).row(i).head(i + 1).lpNorm<1>(); }  // ‖Δ_i‖₁

    // A9, of row i: |õ_i - o_i| against ‖Δ_i‖₁ diam_i / |d̃_i|, and against ε/(1-ε) diam_i, ε = ‖Δ_i‖₁ / d_i < 1.
    Row by_sum(Index i) const;
    Row by_share(Index i) const;
    double share_of(Index i) const { return difference(i) / d[static_cast<std::size_t>(i)]; }  // ε_i

    // A10: ‖Õ - O‖_F against max_i (√i diam_i / |d̃_i|) ‖A - Ã‖_F, and against 2 √N U_N ‖A - Ã‖ R / min_i |d̃_i|, R the
    // radius of a ball that holds all values.
    Row by_frobenius() const;
    Row by_operator() const;
};

}  // namespace causeway::bounds
