// How the bulk tensor copy engine is told where a tensor [batch, head, token, column] lies.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace causeway::gpu {

// The element types of tensors on the GPU.
enum class Type { Float32, BFloat16, Float16 };
constexpr int bytes_of(Type t) { return t == Type::Float32 ? 4 : 2; }

// Strides in elements; columns lie side by side.
struct Strides {
    std::int64_t batch = 0, head = 0, token = 0;
};

// Whether the copy engine can reach it: base and strides in multiples of 16 bytes.
bool copy_engine_reaches(const void* data, Type type, Strides s);

// Boxes of `columns` columns (128 bytes: the 128-byte swizzle) by `tokens` tokens of one head.
CUtensorMap tensor_map(const void* data, Type type, std::int64_t B, std::int64_t H, std::int64_t N, int width, Strides s, int columns, int tokens);

}  // namespace causeway::gpu
