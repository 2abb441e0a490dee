// Rows of a tensor to warps.
#pragma once

#include <algorithm>

#include "gpu/kit/rows.hpp"

namespace causeway::gpu {

constexpr int rows_of_block = 8;  // a warp each: blocks of (32, rows_of_block) threads

// f(matrix row, element offset of its row in the tensor) for the rows of this warp.
template <class F>
__device__ __forceinline__ void each_row(const RowRange& r, Strides s, const F& f) {
    const std::int64_t all = r.count * r.rows;
    for (std::int64_t i = blockIdx.x * std::int64_t{rows_of_block} + threadIdx.y; i < all;
         i += std::int64_t{gridDim.x} * rows_of_block) {
        const std::int64_t bh = r.first + i / r.rows;
        f(i, bh / r.heads * s.batch + bh % r.heads * s.head + (r.row + i % r.rows) * s.token);
    }
}

inline unsigned blocks_of(const RowRange& r) {
    return static_cast<unsigned>(
        std::min<std::int64_t>((r.count * r.rows + rows_of_block - 1) / rows_of_block, 1 << 16));
}

}  // namespace causeway::gpu
