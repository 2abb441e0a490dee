// Kernels that start while the one before them ends: a token is hundreds of short ones.
#pragma once

#include "gpu/base/device.hpp"
#include "gpu/kit/launch.hpp"
#include "gpu/kit/ptx.cuh"

namespace causeway::gpu::models {

// Every kernel that launch_dependent() starts calls begin_dependent() once, and reads or writes nothing before it that
// another kernel of the stream writes or reads. Behind it the kernels before this one have ended.
__device__ __forceinline__ void begin_dependent() {
#if __CUDA_ARCH__ >= 900
    ptx::griddepcontrol_wait();
#endif
}
// From here on the kernel behind this one may start.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
    ptx::griddepcontrol_launch_dependents();
#endif
}

template <class... P, class... A>
void launch_dependent(void (*kernel)(P...), const char* name, dim3 grid, unsigned threads, cudaStream_t stream,
                      const A&... args) {
    launch(kernel, name, grid, threads, 0, 1, device().compute >= 90, stream, args...);
}

}  // namespace causeway::gpu::models
