#include "gpu/kit/launch.hpp"

#include <array>
#include <map>
#include <mutex>

namespace causeway::gpu {

namespace {

// What kernels may have on a device. Each has a lock of its own: a device that loads a kernel waits for what runs
// there, which may wait for another one.
struct Allowed {
    std::mutex guard;
    std::map<const void*, std::size_t> of;
};
Allowed& allowed_on(int device) {
    static auto& all = *new std::array<Allowed, 64>;
    return all[static_cast<std::size_t>(device) % all.size()];
}

}  // namespace

void allow_shared(const void* kernel, std::size_t bytes, const char* name) {
    if (bytes == 0) return;
    int device = 0;
    check(cudaGetDevice(&device), name);
    Allowed& allowed = allowed_on(device);
    const std::lock_guard lock(allowed.guard);
    std::size_t& most = allowed.of[kernel];
    if (bytes <= most) return;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)), name);
    most = bytes;
}

}  // namespace causeway::gpu
