// Device memory that frees itself, and is counted.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

namespace causeway::gpu {

// Bytes of device memory that Buffers hold now, and the most they have held since reset_peak().
std::size_t bytes_in_use();
std::size_t bytes_peak();
void reset_peak();

// Owns `bytes` bytes of device memory; movable. OutOfMemory, saying how much was asked for and how much is free, when there
// is not that much. Zero bytes own nothing.
class Buffer {
public:
    Buffer() = default;
    explicit Buffer(std::size_t bytes);
    Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~Buffer();

    void* data() const { return data_; }
    template <class T>
    T* as() const {
        return static_cast<T*>(data_);
    }
    std::size_t bytes() const { return bytes_; }

private:
    void* data_ = nullptr;
    std::size_t bytes_ = 0;
};

}  // namespace causeway::gpu
