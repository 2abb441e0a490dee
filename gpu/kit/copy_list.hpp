// Short lists of the host for kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

namespace causeway::gpu {

// Queues a copy of `bytes` bytes, a multiple of 4, from ordinary memory of the host to the device; both addresses are
// multiples of 4. What lies at `from` now is what arrives, also where a CUDA graph captures the stream: a short list,
// and any list in a graph, travels as arguments of a kernel. `doing` is for the message of what failed.
void copy_list(void* to, const void* from, std::size_t bytes, cudaStream_t stream, const char* doing);

template <class T>
void copy_list(void* to, const std::vector<T>& list, cudaStream_t stream, const char* doing) {
    static_assert(sizeof(T) % 4 == 0);
    copy_list(to, list.data(), list.size() * sizeof(T), stream, doing);
}

}  // namespace causeway::gpu
