// For tests of the GPU: whether there is one, inputs, and errors.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "gpu/base/device.hpp"
#include "gpu/base/error.hpp"
#include "tests/catch.hpp"

namespace causeway::test {

// False where no GPU can be used: the test returns at once, and is counted as skipped. Asked once in a test.
inline bool on_gpu() {
    std::string why;
    if (gpu::device_available(&why)) return true;
    skip("tests of the GPU", why);
    return false;
}

// The same for the kernels that compute capability 9.0 (Hopper) alone runs: files *_hopper.cu.
inline bool on_hopper() {
    if (!on_gpu()) return false;
    if (gpu::device().hopper()) return true;
    skip("tests of kernels for Hopper", "the GPU is a " + gpu::device().name);
    return false;
}

// Tensors are made, filled and poisoned in the order of the default stream, which streams of their own do not wait for;
// and a plain copy may return before it has arrived. Before a call on another stream.
inline void settle() { gpu::check(cudaDeviceSynchronize(), "waiting for what the call needs"); }

}  // namespace causeway::test
