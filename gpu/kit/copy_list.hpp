// Short lists of the host for kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

namespace causeway::gpu {

// Queues a copy of `bytes` bytes of the host to the device; both at multiples of 4 bytes, and as many. What is copied
// is what lies at `from` now, in a CUDA graph that captures the stream too: there, and where they are few, they travel
// as arguments of a kernel. `doing` is for the message of what failed.
void copy_list(void* to, const void* from, std::size_t bytes, cudaStream_t stream, const char* doing);

template <class T>
void copy_list(void* to, const std::vector<T>& list, cudaStream_t stream, const char* doing) {
    static_assert(sizeof(T) % 4 == 0);
    copy_list(to, list.data(), list.size() * sizeof(T), stream, doing);
}

}  // namespace causeway::gpu
