#include "core/model/weight.hpp"

#include <algorithm>

#include "core/base/mapping.hpp"
#include "core/base/parallel.hpp"
#include "core/model/dot.hpp"
#include "core/model/quantised.hpp"
#include "core/tensor/product.hpp"

namespace causeway::model {
namespace {

// Floats of a tile of unpacked weights.
constexpr Index tile_floats = Index{1} << 18;

// Bytes of weights that one task of a product with a single row reads.
constexpr Index task_bytes = Index{1} << 16;

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

template <class Format>
void multiply_row(const Weight& w, const Arranged& x, float* y) {
    const auto row_bytes = static_cast<Index>(w.row_bytes());
    const Index rows = std::max<Index>(1, std::min(task_bytes / row_bytes, (w.rows + threads() - 1) / threads()));
    parallel_for((w.rows + rows - 1) / rows, [&](Index task) {
        const Index first = task * rows, last = std::min(w.rows, first + rows);
        for (Index i = first; i < last; ++i) y[i] = dot<Format>(w.row(i), w.columns, x);
    });
}

// One row of x.
void multiply_one(const Weight& w, const float* x, float* y) {
    visit_format(w.type, [&](auto format) {
        using Format = decltype(format);
        if constexpr (Quantised<Format>) {
            const Index blocks = w.columns / Format::block;
            Buffer<float> arranged(w.columns + blocks * Format::sums);
            float* const sums = arranged.data() + w.columns;
            for (Index i = 0; i < blocks; ++i)
                Format::arrange_block(x + i * Format::block, arranged.data() + i * Format::block,
                                      sums + i * Format::sums);
            multiply_row<Format>(w, {arranged.data(), sums}, y);
        } else {
            multiply_row<Format>(w, {x, nullptr}, y);
        }
    });
}

// Tiles of whole rows, each unpacked and multiplied by one thread.
void multiply_tiles(const Weight& w, const float* x, Index n, Index x_stride, float* y, Index y_stride) {
    const Index fair = (w.rows + threads() - 1) / threads();
    const Index rows = std::clamp<Index>(tile_floats / w.columns, 1, std::max<Index>(fair, 1));
    parallel_for((w.rows + rows - 1) / rows, [&](Index i) {
        const Index first = i * rows, count = std::min(rows, w.rows - first);
        Buffer<float> tile(count * w.columns);
        unpack(w.type, w.row(first), count * w.columns, tile.data());
        matrix_product<float, false, true>(y + first, y_stride, x, x_stride, tile.data(), w.columns, n, count,
                                           w.columns, false);
    });
}

}  // namespace

void read_row(const Weight& w, Index i, float* out) {
    unpack(w.type, w.row(i), w.columns, out);
    check_mapped(w.data);
}

void multiply(const Weight& w, const float* x, Index n, Index x_stride, float* y, Index y_stride) {
    if (n == 0 || w.rows == 0) return;
    if (n == 1) multiply_one(w, x, y);
    else multiply_tiles(w, x, n, x_stride, y, y_stride);
    check_mapped(w.data);
}

}  // namespace causeway::model
