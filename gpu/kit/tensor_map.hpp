// How TMA is told where a tensor [batch, head, token, column] lies.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "gpu/kit/layout.hpp"

namespace causeway::gpu {

// Whether TMA can reach it: base and strides in multiples of 16 bytes.
bool tma_reaches(const void* data, Type type, Strides s);

// Boxes of `columns` columns (128 bytes: the 128-byte swizzle) by `tokens` tokens of one head.
CUtensorMap tensor_map(const void* data, Type type, std::int64_t B, std::int64_t H, std::int64_t N, int width,
                       Strides s, int columns, int tokens);

}  // namespace causeway::gpu
