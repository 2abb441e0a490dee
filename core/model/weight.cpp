#include "core/model/weight.hpp"

#include <algorithm>

#include "core/base/mapping.hpp"
#include "core/base/parallel.hpp"
#include "core/model/quantised.hpp"
#include "core/tensor/product.hpp"

namespace causeway::model {
namespace {

// Floats of a tile of unpacked weights.
constexpr Index tile_floats = Index{1} << 18;

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
    multiply_tiles(w, x, n, x_stride, y, y_stride);
    check_mapped(w.data);
}

}  // namespace causeway::model
