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

// Owns `bytes` bytes of device memory; movable. OutOfMemory, saying how much was asked for and how much is free, when
// there is not that much. Zero bytes own nothing. With a stream, the memory comes from the device's pool and goes back
// to it in the order of that stream's work: taking it costs microseconds, may be captured into a graph, and needs no
// waiting before it is given back.
class Buffer {
public:
    Buffer() = default;
    explicit Buffer(std::size_t bytes);
    Buffer(std::size_t bytes, cudaStream_t stream);
    // Memory of somebody else's, neither freed nor counted.
    static Buffer view(void* data, std::size_t bytes);
    Buffer(Buffer&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)),
          bytes_(std::exchange(other.bytes_, 0)),
          stream_(other.stream_),
          pooled_(other.pooled_),
          borrowed_(other.borrowed_) {}
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        std::swap(stream_, other.stream_);
        std::swap(pooled_, other.pooled_);
        std::swap(borrowed_, other.borrowed_);
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
    cudaStream_t stream_ = nullptr;
    bool pooled_ = false, borrowed_ = false;
};

}  // namespace causeway::gpu
