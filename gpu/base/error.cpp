#include "gpu/base/error.hpp"

namespace causeway::gpu {

void check(cudaError_t code, const char* what) {
    if (code == cudaSuccess) return;
    cudaGetLastError();
    const std::string message =
        sentence("gpu: ", what, " failed: ", cudaGetErrorString(code), " (", cudaGetErrorName(code), ")");
    if (code == cudaErrorMemoryAllocation) throw OutOfMemory(message);
    throw SystemError(message);
}

}  // namespace causeway::gpu
