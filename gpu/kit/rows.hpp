// Rows of tensors of any type and strides as Float32 matrices, for products of matrices, and back.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/kit/layout.hpp"

namespace causeway::gpu {

// Tokens [row, row + rows) of the batch-heads [first, first + count) of a tensor with so many heads a batch.
struct RowRange {
    std::int64_t heads, first, count, row, rows;
    int width;
};

// to [count][rows][width] = those rows of x [batch, head, token, width].
void gather_rows(const void* x, Type type, Strides s, const RowRange& r, float* to, cudaStream_t stream);

// Those rows of x = from [count][rows][width], rounded to its type.
void scatter_rows(const float* from, void* x, Type type, Strides s, const RowRange& r, cudaStream_t stream);

}  // namespace causeway::gpu
