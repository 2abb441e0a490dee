#include "core/model/weight.hpp"

#include <algorithm>
#include <vector>

#include "core/base/mapping.hpp"
#include "core/base/parallel.hpp"
#include "core/kit/panels.hpp"
#include "core/model/dot.hpp"
#include "core/model/quantised.hpp"

namespace causeway::model {
namespace {

// Bytes of weights that one task of a product with few rows reads.
constexpr Index task_bytes = Index{1} << 16;

// Up to so many rows of x are multiplied one by one with a row of weights, which then comes from the first-level cache.
constexpr Index most_single_rows = 6;

// A product of many rows: panels of W rows of weights by `depth` columns are unpacked, transposed and multiplied while
// they lie in the first-level cache (16 × 320 floats are 20 KiB), with blocks of rows of x that lie in the second.
constexpr Index W = kit::panel_width<float>, L = simd::lanes<float>;
constexpr Index most_depth = 320, most_panels = 8, rows_of_x = 96;

// n things in groups of at most `most`: how many to a group, so that every thread has as many groups.
Index group_size(Index n, Index most) {
    const Index round = most * threads(), groups = (n + round - 1) / round * threads();
    return (n + groups - 1) / groups;
}

// Calls f with the format of the type: f(DotQ4<true>{}).
template <class F>
decltype(auto) visit_format(WeightType type, F&& f) {
    switch (type) {
        case WeightType::f32: return f(DotF32{});
        case WeightType::f16: return f(DotF16{});
        case WeightType::bf16: return f(DotBF16{});
        case WeightType::q8_0: return f(DotQ8_0{});
        case WeightType::q4_0: return f(DotQ4<false>{});
        case WeightType::q4_1: return f(DotQ4<true>{});
        case WeightType::q4_k: return f(DotQ45K<false>{});
        case WeightType::q5_k: return f(DotQ45K<true>{});
        default: return f(DotQ6K{});
    }
}

// n rows of x, arranged for the format.
template <class Format>
void multiply_rows(const Weight& w, const std::vector<Arranged>& x, float* y, Index y_stride) {
    const Index rows = group_size(w.rows, std::max<Index>(1, task_bytes / static_cast<Index>(w.row_bytes())));
    parallel_for((w.rows + rows - 1) / rows, [&](Index task) {
        const Index last = std::min(w.rows, (task + 1) * rows);
        for (Index i = task * rows; i < last; ++i)
            for (std::size_t t = 0; t < x.size(); ++t)
                y[static_cast<Index>(t) * y_stride + i] = dot<Format>(w.row(i), w.columns, x[t]);
    });
}

// Few rows of x.
void multiply_few(const Weight& w, const float* x, Index n, Index x_stride, float* y, Index y_stride) {
    visit_format(w.type, [&](auto format) {
        using Format = decltype(format);
        std::vector<Arranged> rows;
        Buffer<float> room;
        if constexpr (Quantised<Format>) {
            const Index blocks = w.columns / Format::block, width = w.columns + blocks * Format::sums;
            room = Buffer<float>(n * width);
            for (Index t = 0; t < n; ++t) {
                float *const out = room.data() + t * width, *const sums = out + w.columns;
                for (Index i = 0; i < blocks; ++i)
                    Format::arrange_block(x + t * x_stride + i * Format::block, out + i * Format::block,
                                          sums + i * Format::sums);
                rows.push_back({out, sums});
            }
        } else {
            for (Index t = 0; t < n; ++t) rows.push_back({x + t * x_stride, nullptr});
        }
        multiply_rows<Format>(w, rows, y, y_stride);
    });
}

// Columns of weights that are unpacked together: whole blocks, shares of about the same size.
Index depth_of(const Weight& w) {
    const Index unit = std::max(weights_in_block(w.type), L), units = (w.columns + unit - 1) / unit;
    const Index most = most_depth / unit, shares = (units + most - 1) / most;
    return (units + shares - 1) / shares * unit;
}

// Rows first ... first + count of the weights, columns from `at` on, as panels [panel][depth][W]; rows past the last
// are zero.
void unpack_panels(const Weight& w, Index first, Index count, Index at, Index depth, float* rows, float* panels) {
    const Index offset = at / weights_in_block(w.type) * bytes_of_block(w.type);
    for (Index i = 0; i < count; i += W) {
        const Index here = std::min(W, count - i);
        for (Index k = 0; k < here; ++k) unpack(w.type, w.row(first + i + k) + offset, depth, rows + k * depth);
        kit::pack_transposed(rows, here, depth, panels + i * depth);
    }
}

// Y = X Wᵀ, or Y += X Wᵀ where `add`, for one panel of `columns` rows of weights.
template <int NV>
void multiply_panel(const float* x, Index n, Index x_stride, const float* panel, Index depth, float* y, Index y_stride,
                    Index columns, bool add) {
    kit::each_row_tile(n, [&](auto rows, Index t) {
        simd::Tile<float, rows, NV> tile;
        tile.clear();
        tile.multiply(x + t * x_stride, x_stride, 1, panel, W, depth);
        for (int r = 0; r < rows; ++r) {
            float* const out = y + (t + r) * y_stride;
            if (add)
                for (int v = 0; v < NV; ++v) tile.acc[r][v] += simd::load_part(out + v * L, columns - v * L);
            kit::store_row(out, tile.acc[r], columns);
        }
    });
}

// Some panels of rows of weights, from `first` on.
void multiply_group(const Weight& w, Index first, Index count, const float* x, Index n, Index x_stride, float* y,
                    Index y_stride) {
    const Index depth = depth_of(w), padded = (count + W - 1) / W * W;
    Buffer<float> rows(W * depth), panels(padded * depth);
    for (Index at = 0; at < w.columns; at += depth) {
        const Index here = std::min(depth, w.columns - at);
        unpack_panels(w, first, count, at, here, rows.data(), panels.data());
        for (Index t = 0; t < n; t += rows_of_x) {
            for (Index i = 0; i < count; i += W) {
                const Index columns = std::min(W, count - i);
                kit::vectors_of_panel(columns, L, [&](auto vectors) {
                    multiply_panel<vectors>(x + t * x_stride + at, std::min(rows_of_x, n - t), x_stride,
                                            panels.data() + i * here, here, y + t * y_stride + first + i, y_stride,
                                            columns, at > 0);
                });
            }
        }
    }
}

// Many rows of x: groups of panels that fit the second-level cache.
void multiply_many(const Weight& w, const float* x, Index n, Index x_stride, float* y, Index y_stride) {
    const Index rows = group_size((w.rows + W - 1) / W, most_panels) * W;
    parallel_for((w.rows + rows - 1) / rows, [&](Index i) {
        multiply_group(w, i * rows, std::min(rows, w.rows - i * rows), x, n, x_stride, y, y_stride);
    });
}

}  // namespace

void read_row(const Weight& w, Index i, float* out) {
    unpack(w.type, w.row(i), w.columns, out);
    check_mapped(w.data);
}

void multiply(const Weight& w, const float* x, Index n, Index x_stride, float* y, Index y_stride) {
    if (n == 0 || w.rows == 0) return;
    if (n <= most_single_rows) multiply_few(w, x, n, x_stride, y, y_stride);
    else multiply_many(w, x, n, x_stride, y, y_stride);
    check_mapped(w.data);
}

}  // namespace causeway::model
