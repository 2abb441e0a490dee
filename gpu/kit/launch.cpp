#include "gpu/kit/launch.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace causeway::gpu {

void allow_shared(const void* kernel, std::size_t bytes, const char* name) {
    if (bytes == 0) return;
    static std::mutex guard;
    static std::map<std::pair<const void*, int>, std::size_t> allowed;  // on a device
    int device = 0;
    check(cudaGetDevice(&device), name);
    const std::lock_guard lock(guard);
    std::size_t& most = allowed[{kernel, device}];
    if (bytes <= most) return;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)), name);
    most = bytes;
}

}  // namespace causeway::gpu
