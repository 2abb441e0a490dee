// Frobenius and operator norms of an error matrix Δ and of the matrix A that it is the error of, each with and without
// the causal mask, from tiles.
#pragma once

#include <algorithm>
#include <array>
#include <functional>

#include "core/lowrank/problem.hpp"

namespace causeway::lowrank {

inline constexpr Index tile_rows = 128, tile_columns = 512;  // of a tile, at most

// The matrices whose norms are sought: Δ, M ⊙ Δ, A, M ⊙ A.
inline constexpr int kinds = 4;

// Rows i ... i + m - 1 and columns j ... j + n - 1 of A and Δ, N × N.
using Tile = std::function<void(Index i, Index m, Index j, Index n, Matrix<double>& A, Matrix<double>& delta)>;

// Columns of row i + a in a tile from column j that the mask keeps: 0 … n.
inline Index kept(Index i, Index a, Index j, Index n) { return std::clamp<Index>(i + a - j + 1, 0, n); }

struct TiledNorms {
    std::array<double, kinds> frobenius{}, operators{};
    double residual = 0;  // the largest relative residual with which an operator norm stopped
};

// The norms of all four, without `mask` the operator norms of Δ and A only. Operator norms by Golub and Kahan's
// bidiagonalisation from a fixed start, fully reorthogonalised, until the relative residual is at most `tolerance` or
// after max_steps steps. N² doubles of tiles up to N = 2048; beyond, tiles are computed anew in each step.
TiledNorms norms_of(const Tile& tile, Index N, bool mask, double tolerance, Index max_steps);

}  // namespace causeway::lowrank
