#include "gpu/base/choose_device.hpp"

#include <atomic>
#include <mutex>

#include "gpu/base/error.hpp"
#include "gpu/base/succeeded.hpp"

namespace causeway::gpu {
namespace {

std::atomic<int> chosen{-1};  // until it has been entered

}  // namespace

void choose_device(int i) noexcept { chosen = i; }

void enter_chosen_device() {
    if (chosen < 0) return;
    static std::mutex guard;
    const std::lock_guard lock(guard);
    const int i = chosen;
    int count = 0;
    if (i < 0) return;
    if (!succeeded(cudaGetDeviceCount(&count)) || count == 0) return;  // what the caller does next says so
    check(cudaSetDevice(i % count), "choosing the GPU of this process");
    chosen = -1;
}

}  // namespace causeway::gpu
