// Element types and memory layouts of tensors on the GPU.
#pragma once

#include <cstddef>
#include <cstdint>

namespace causeway::gpu {

// The element types of tensors on the GPU.
enum class Type { Float32, BFloat16, Float16 };
constexpr int bytes_of(Type t) { return t == Type::Float32 ? 4 : 2; }

// How [batch, head, token, column] lies in memory: strides in elements; columns lie side by side.
struct Strides {
    std::int64_t batch = 0, head = 0, token = 0;
};

// Strides of a contiguous tensor [B, H, N, width].
constexpr Strides contiguous(std::int64_t H, std::int64_t N, int width) { return {H * N * width, N * width, width}; }

// Where the rows of token `first` begin in a tensor, of every batch entry and head.
inline void* from_token(const void* x, Type type, Strides s, std::int64_t first) {
    return static_cast<char*>(const_cast<void*>(x)) + first * s.token * bytes_of(type);
}

// Device memory that a call needs besides its tensors, given by the caller; 16-byte aligned.
struct Workspace {
    void* data = nullptr;
    std::size_t bytes = 0;
};

}  // namespace causeway::gpu
