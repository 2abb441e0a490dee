#include "gpu/base/buffer.hpp"

#include <array>
#include <atomic>
#include <cstdint>

#include "gpu/base/choose_device.hpp"
#include "gpu/base/device.hpp"
#include "gpu/base/error.hpp"
#include "gpu/base/succeeded.hpp"

namespace causeway::gpu {

namespace {

std::atomic<std::size_t> in_use{0}, peak{0};

}  // namespace

std::size_t bytes_in_use() { return in_use; }
std::size_t bytes_peak() { return peak; }
void reset_peak() { peak = in_use.load(); }

namespace {

// The pool of a device. It keeps what it is given back: without this it returns all of it to the driver whenever a
// stream is waited for.
cudaMemPool_t pool_of(int device) {
    static std::array<std::atomic<cudaMemPool_t>, 64> known;  // every call allocates
    const auto at = static_cast<std::size_t>(device);
    if (at < known.size() && known[at]) return known[at];
    cudaMemPool_t p = nullptr;
    check(cudaDeviceGetDefaultMemPool(&p, device), "asking for the memory pool");
    std::uint64_t all = UINT64_MAX;
    check(cudaMemPoolSetAttribute(p, cudaMemPoolAttrReleaseThreshold, &all), "setting up the memory pool");
    if (at < known.size()) known[at] = p;
    return p;
}

cudaMemPool_t pool() {
    enter_chosen_device();
    int device = 0;
    const cudaError_t code = cudaGetDevice(&device);
    // The first thing that most programs ask of CUDA: where there is no GPU, this says so.
    if (std::string why; !succeeded(code) && !device_available(&why)) fail_as<SystemError>("gpu: ", why);
    check(code, "asking for the device");
    return pool_of(device);
}

// What the allocation that ended with this code throws.
[[noreturn]] void refused(cudaError_t code, std::size_t bytes) {
    cudaGetLastError();
    if (code != cudaErrorMemoryAllocation) check(code, "allocating device memory");
    std::size_t free = 0, total = 0;
    // The question needs memory of the device itself, which may be all taken.
    if (!succeeded(cudaMemGetInfo(&free, &total)))
        throw OutOfMemory(sentence("gpu: ", bytes,
                                   " bytes of device memory were asked for, and the device has not even what it takes "
                                   "to ask how much is free: another program holds its memory"));
    throw OutOfMemory(
        sentence("gpu: ", bytes, " bytes of device memory were asked for, ", free, " of ", total, " are free"));
}

void count(std::size_t bytes) {
    const std::size_t now = in_use += bytes;
    for (std::size_t seen = peak; seen < now && !peak.compare_exchange_weak(seen, now);) {}
}

}  // namespace

Buffer::Buffer(std::size_t bytes) {
    if (bytes == 0) return;
    enter_chosen_device();
    if (const cudaError_t code = cudaMalloc(&data_, bytes); code != cudaSuccess) {
        data_ = nullptr;
        refused(code, bytes);
    }
    bytes_ = bytes;
    count(bytes);
}

Buffer::Buffer(std::size_t bytes, cudaStream_t stream) : stream_(stream), pooled_(true) {
    if (bytes == 0) return;
    const cudaMemPool_t p = pool();
    cudaError_t code = cudaMallocFromPoolAsync(&data_, bytes, p, stream);
    if (code == cudaErrorMemoryAllocation) {
        // What is on its way back, and pieces too small, may make room together.
        cudaGetLastError();
        if (succeeded(cudaStreamSynchronize(stream))) succeeded(cudaMemPoolTrimTo(p, 0));
        code = cudaMallocFromPoolAsync(&data_, bytes, p, stream);
    }
    if (code != cudaSuccess) {
        data_ = nullptr;
        refused(code, bytes);
    }
    bytes_ = bytes;
    count(bytes);
}

Buffer Buffer::view(void* data, std::size_t bytes) {
    Buffer out;
    out.data_ = data, out.bytes_ = bytes, out.borrowed_ = true;
    return out;
}

Buffer::~Buffer() {
    if (!data_ || borrowed_) return;
    succeeded(pooled_ ? cudaFreeAsync(data_, stream_) : cudaFree(data_));
    in_use -= bytes_;
}

}  // namespace causeway::gpu
