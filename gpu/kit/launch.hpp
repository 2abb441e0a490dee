// Launching kernels with what <<<...>>> has no words for.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "gpu/base/error.hpp"

namespace causeway::gpu {

// Allows launches of the kernel on the current device to have that much dynamic shared memory. CUDA is asked once for
// each size that is larger than those before.
void allow_shared(const void* kernel, std::size_t bytes, const char* name);

// Launches a kernel with `shared` bytes of dynamic shared memory, in clusters of `cluster` blocks if that is above 1.
// With `after` it may start before the kernel before it in the stream has ended; griddepcontrol_wait() then waits for
// that one. `name` says in an error what failed.
template <class... P, class... A>
void launch(void (*kernel)(P...), const char* name, dim3 grid, unsigned threads, std::size_t shared, int cluster,
            bool after, cudaStream_t stream, const A&... args) {
    allow_shared(reinterpret_cast<const void*>(kernel), shared, name);
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    cudaLaunchAttribute attributes[2] = {};
    config.attrs = attributes;
    const auto add = [&]() -> cudaLaunchAttribute& { return attributes[config.numAttrs++]; };
    if (after) {
        cudaLaunchAttribute& x = add();
        x.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        x.val.programmaticStreamSerializationAllowed = 1;
    }
    if (cluster > 1) {
        cudaLaunchAttribute& x = add();
        x.id = cudaLaunchAttributeClusterDimension;
        x.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
    }
    check(cudaLaunchKernelEx(&config, kernel, args...), name);
}

}  // namespace causeway::gpu
