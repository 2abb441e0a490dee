// Every CUDA call goes through check(): a failure becomes one exception with one sentence.
#pragma once

#include <cuda_runtime_api.h>

#include "core/base/error.hpp"

namespace causeway::gpu {

// Throws when code is an error: OutOfMemory for device memory that is not there, SystemError otherwise. `what` says
// what was being done ("copying q to the GPU"). The error is cleared where CUDA allows it, so that later calls start
// clean.
void check(cudaError_t code, const char* what);

// CUDA works in the process that used it first, and never in one that was forked from it afterwards: there every call
// fails, and this is why.
inline constexpr const char* not_in_forked_child =
    "CUDA does not work in a process that was forked after CUDA had been used; start a program of its own instead of "
    "forking (in Python, multiprocessing's \"spawn\")";
void note_use();                   // by this process: called where a device has answered. Throws OutOfMemory.
bool forked_after_use() noexcept;  // this process was forked from one that had used CUDA

// After a kernel launch: throws when the launch itself failed. Does not wait for the kernel.
inline void check_launch(const char* kernel) { check(cudaPeekAtLastError(), kernel); }

}  // namespace causeway::gpu
