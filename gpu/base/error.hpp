// Every CUDA call goes through check(): a failure becomes one exception with one sentence.
#pragma once

#include <cuda_runtime_api.h>

#include "core/base/error.hpp"

namespace causeway::gpu {

// Throws when code is an error: OutOfMemory for device memory that is not there, SystemError otherwise. `what` says
// what was being done ("copying q to the GPU"). The error is cleared where CUDA allows it, so that later calls start
// clean.
void check(cudaError_t code, const char* what);

// After a kernel launch: throws when the launch itself failed. Does not wait for the kernel.
inline void check_launch(const char* kernel) { check(cudaPeekAtLastError(), kernel); }

}  // namespace causeway::gpu
