// Blocks of tokens in panels, for the products of the chunked forms.
//
// A product runs in a register tile (simd.hpp) of a few rows and up to four vectors of columns. Its left operand is
// read one scalar at a time from wherever it lies; its right-hand operand is kept in panels as wide as the tile and
// contiguous, because rows of d = 128 floats apart would share half of the first-level cache's sets.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/kit/simd.hpp"

namespace causeway::kit {

// Register tile of six rows and up to four vectors (two where there are 16 registers instead of the 32 of AVX-512).
inline constexpr int tile_rows = 6;
inline constexpr int panel_vectors = simd::bytes == 64 ? 4 : 2;

// Columns of a panel, and panels of so many columns.
template <class T>
inline constexpr Index panel_width = panel_vectors* simd::lanes<T>;

template <class T>
constexpr Index panels(Index columns) {
    return (columns + panel_width<T> - 1) / panel_width<T>;
}

// f(rows, first) over n rows, as many at a time as registers allow.
template <class F>
inline void each_row_tile(Index n, F&& f) {
    Index i = 0;
    for (; i + tile_rows <= n; i += tile_rows) f(std::integral_constant<int, tile_rows>{}, i);
    if (i + 4 <= n) f(std::integral_constant<int, 4>{}, i), i += 4;
    if (i + 2 <= n) f(std::integral_constant<int, 2>{}, i), i += 2;
    if (i < n) f(std::integral_constant<int, 1>{}, i);
}

// The same from the last row to the first.
template <class F>
inline void each_row_tile_reversed(Index n, F&& f) {
    Index end = n;
    for (; end >= tile_rows; end -= tile_rows) f(std::integral_constant<int, tile_rows>{}, end - tile_rows);
    if (end >= 4) f(std::integral_constant<int, 4>{}, end - 4), end -= 4;
    if (end >= 2) f(std::integral_constant<int, 2>{}, end - 2), end -= 2;
    if (end >= 1) f(std::integral_constant<int, 1>{}, end - 1);
}

// f(vectors) for the columns left of a panel, rounded up to whole vectors of L.
template <class F>
inline void vectors_of_panel(Index columns, Index L, F&& f) {
    if constexpr (panel_vectors > 2) {
        if (columns > 3 * L) return f(std::integral_constant<int, 4>{});
        if (columns > 2 * L) return f(std::integral_constant<int, 3>{});
    }
    if (columns > L) return f(std::integral_constant<int, 2>{});
    f(std::integral_constant<int, 1>{});
}

// How wide the ranges of d columns are, up to `parts` of them, in whole vectors.
template <class T>
Index range_width(Index d, Index parts) {
    constexpr Index L = simd::lanes<T>;
    const Index vectors = std::max<Index>((d + L - 1) / L, 1);
    return (vectors + std::min(parts, vectors) - 1) / std::min(parts, vectors) * L;
}

// Panels [panel][n][W] as n rows of d columns, `stride` apart: pack_rows() the other way.
template <class T>
void unpack_rows(const T* panels, Index n, Index d, T* into, Index stride) {
    constexpr Index W = panel_width<T>;
    for (Index at = 0; at < d; at += W)
        for (Index i = 0; i < n; ++i) std::copy_n(panels + at * n + i * W, std::min(W, d - at), into + i * stride + at);
}

// n rows of d columns, `stride` apart, as panels [panel][c][W]; columns past d are not written.
template <class T>
void pack_rows(const T* from, Index n, Index d, Index stride, T* into, Index c) {
    constexpr Index W = panel_width<T>, L = simd::lanes<T>;
    for (Index at = 0; at < d; at += W) {
        const Index columns = std::min(W, d - at);
        T* panel = into + at * c;
        for (Index i = 0; i < n; ++i) {
            const T* row = from + i * stride + at;
            if (columns == W) {
                for (int v = 0; v < panel_vectors; ++v) simd::store(panel + i * W + v * L, simd::load(row + v * L));
            } else {
                std::copy_n(row, columns, panel + i * W);
            }
        }
    }
}

// n contiguous rows of r columns, transposed, as panels [panel][r][W] of the n rows, in squares that stay in registers.
// Rows past n are zero up to whole vectors.
template <class T>
void pack_transposed(const T* from, Index n, Index r, T* into) {
    constexpr Index W = panel_width<T>, L = simd::lanes<T>;
    for (Index j = 0; j < n; j += L) {
        const Index count = std::min(L, n - j);
        T* panel = into + j / W * W * r + j % W;
        Index e = 0;
        if (count == L) {
            for (; e + L <= r; e += L) {
                simd::Vector<T> square[L];
                for (Index k = 0; k < L; ++k) square[k] = simd::load(from + (j + k) * r + e);
                simd::transpose<T>(square);
                for (Index k = 0; k < L; ++k) simd::store(panel + (e + k) * W, square[k]);
            }
        }
        for (; e < r; ++e)
            for (Index k = 0; k < L; ++k) panel[e * W + k] = k < count ? from[(j + k) * r + e] : T(0);
    }
}

// Panels [panel][rows][W] of a matrix of `columns` columns, transposed: panels [panel of rows][stride][W], where row j
// of a panel is column j of the matrix; stride >= columns in whole vectors.
template <class T>
void transpose_panels(const T* from, Index rows, Index columns, T* into, Index stride) {
    constexpr Index W = panel_width<T>, L = simd::lanes<T>;
    for (Index at = 0; at < columns; at += L) {
        const T* panel = from + at / W * W * rows + at % W;
        for (Index e = 0; e < rows; e += L) {
            simd::Vector<T> square[L];
            for (Index k = 0; k < L; ++k)
                square[k] = e + k < rows ? simd::load(panel + (e + k) * W) : simd::Vector<T>{};
            simd::transpose<T>(square);
            T* out = into + e / W * W * stride + e % W;
            for (Index k = 0; k < L; ++k) simd::store(out + (at + k) * W, square[k]);
        }
    }
}

// t += X Y over the triangle on the diagonal, of R rows: the lower triangle of X, rows `stride` apart, and R rows of Y
// in a panel.
template <class T, int R, int NV>
inline void add_triangle(simd::Tile<T, R, NV>& t, const T* X, Index stride, const T* Y) {
    constexpr Index W = panel_width<T>, L = simd::lanes<T>;
#pragma GCC unroll 16
    for (int k = 0; k < R; ++k) {
        simd::Vector<T> y[NV];
        for (int v = 0; v < NV; ++v) y[v] = simd::load(Y + k * W + v * L);
#pragma GCC unroll 16
        for (int row = k; row < R; ++row)
            for (int v = 0; v < NV; ++v) t.acc[row][v] += X[row * stride + k] * y[v];
    }
}

// One row of up to `columns` values from the vectors of a tile.
template <class T, int NV>
inline void store_row(T* into, const simd::Vector<T> (&row)[NV], Index columns) {
    constexpr Index L = simd::lanes<T>;
    if (columns >= NV * L) {
        for (int v = 0; v < NV; ++v) simd::store(into + v * L, row[v]);
    } else {
        std::memcpy(into, row, static_cast<std::size_t>(columns) * sizeof(T));
    }
}

// Brings the lines of the next block to the second-level cache a few at a time, between the tiles of this one: loaded
// in a burst they would stall it (measured at N = 16384, d = 128, one core: 108 GFLOP/s without, see README).
class Prefetch {
public:
    void add(const void* from, std::size_t bytes) {
        if (count_ == max_ranges) return;
        ranges_[count_++] = {static_cast<const char*>(from), static_cast<const char*>(from) + bytes};
    }
    void clear() { count_ = 0; }
    void lines(int n) {
        while (n > 0 && count_ > 0) {
            auto& range = ranges_[count_ - 1];
            for (; n > 0 && range.at < range.end; --n, range.at += 64) __builtin_prefetch(range.at, 0, 2);
            if (range.at >= range.end) --count_;
        }
    }

private:
    struct Range {
        const char *at, *end;
    };
    static constexpr int max_ranges = 6;
    Range ranges_[max_ranges];
    int count_ = 0;
};

}  // namespace causeway::kit
