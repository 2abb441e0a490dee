// Copies of rows that lie apart.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace causeway::gpu {

// `rows` rows of `bytes` bytes each, one to_pitch and from_pitch bytes behind the other.
struct RowCopy {
    void* to;
    std::size_t to_pitch;
    const void* from;
    std::size_t from_pitch, bytes, rows;
};

// Queues the copy on the stream: on a GPU, or between it and the CPU. Rows that are farther apart than CUDA's own copy
// of rows takes (2³¹ - 1 bytes) are queued one by one. `doing` is for the message of what failed.
void copy_rows(const RowCopy&, cudaStream_t stream, const char* doing);

// The same between two GPUs, which may be one.
void copy_rows(const RowCopy&, int to_device, int from_device, cudaStream_t stream, const char* doing);

}  // namespace causeway::gpu
