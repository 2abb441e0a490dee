// Between the rows of tokens, [batch · n, heads · width], and the heads that attention works on, [batch, heads, n,
// width].
#pragma once

#include "core/model/blocks/rows.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway::model {

// The heads whose numbers begin `offset` behind the start of a row, the rows `stride` apart and the heads `step`.
inline Tensor split_heads(const float* rows, Index stride, Index batch, Index n, Index heads, Index width, Index step) {
    Tensor out(DType::f32, {batch, heads, n, width});
    float* into = out.data<float>();
    over_rows(batch * n, heads * width, [&](Index first, Index count) {
        for (Index row = first; row < first + count; ++row)
            for (Index h = 0; h < heads; ++h)
                std::copy_n(rows + row * stride + h * step, width,
                            into + ((row / n * heads + h) * n + row % n) * width);
    });
    return out;
}

// The other way, into rows of heads · width.
inline void join_heads(const Tensor& heads, float* rows) {
    const Index h = heads.shape()[1], n = heads.shape()[2], width = heads.shape()[3];
    const float* from = heads.data<float>();
    over_rows(heads.shape()[0] * n, h * width, [&](Index first, Index count) {
        for (Index row = first; row < first + count; ++row)
            for (Index i = 0; i < h; ++i)
                std::copy_n(from + ((row / n * h + i) * n + row % n) * width, width, rows + (row * h + i) * width);
    });
}

}  // namespace causeway::model
