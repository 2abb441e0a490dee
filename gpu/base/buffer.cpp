#include "gpu/base/buffer.hpp"

#include <atomic>

#include "gpu/base/error.hpp"

namespace causeway::gpu {

namespace {

std::atomic<std::size_t> in_use{0}, peak{0};

}  // namespace

std::size_t bytes_in_use() { return in_use; }
std::size_t bytes_peak() { return peak; }
void reset_peak() { peak = in_use.load(); }

Buffer::Buffer(std::size_t bytes) {
    if (bytes == 0) return;
    if (const cudaError_t code = cudaMalloc(&data_, bytes); code != cudaSuccess) {
        data_ = nullptr;
        cudaGetLastError();
        if (code != cudaErrorMemoryAllocation) check(code, "allocating device memory");
        std::size_t free = 0, total = 0;
        cudaMemGetInfo(&free, &total);
        throw OutOfMemory(sentence("gpu: ", bytes, " bytes of device memory were asked for, ", free, " of ", total, " are free"));
    }
    bytes_ = bytes;
    const std::size_t now = in_use += bytes;
    for (std::size_t seen = peak; seen < now && !peak.compare_exchange_weak(seen, now);) {}
}

Buffer::~Buffer() {
    if (!data_) return;
    cudaFree(data_);
    in_use -= bytes_;
}

}  // namespace causeway::gpu
