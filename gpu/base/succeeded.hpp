// Calls of CUDA whose failure is told to nobody, such as those of destructors.
#pragma once

#include <cuda_runtime_api.h>

namespace causeway::gpu {

// Whether the call succeeded. CUDA keeps the code of one that failed: it is cleared, so that the next launch of a
// kernel does not take it for its own.
inline bool succeeded(cudaError_t code) noexcept {
    if (code != cudaSuccess) cudaGetLastError();
    return code == cudaSuccess;
}

}  // namespace causeway::gpu
