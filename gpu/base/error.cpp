#include "gpu/base/error.hpp"

#include <atomic>

#include "core/base/process.hpp"

namespace causeway::gpu {
namespace {

std::atomic<bool> forked{false};  // set in a child, since calls ask often and getpid() goes to the system

}  // namespace

void note_use() {
    static const bool noted = [] {
        process::after_fork([] { forked = true; });
        return true;
    }();
    (void)noted;
}

bool forked_after_use() noexcept { return forked.load(std::memory_order_relaxed); }

void check(cudaError_t code, const char* what) {
    if (code == cudaSuccess) return;
    cudaGetLastError();
    if (forked_after_use()) throw SystemError(sentence("gpu: ", what, " failed: ", not_in_forked_child));
    const std::string message =
        sentence("gpu: ", what, " failed: ", cudaGetErrorString(code), " (", cudaGetErrorName(code), ")");
    if (code == cudaErrorMemoryAllocation) throw OutOfMemory(message);
    throw SystemError(message);
}

}  // namespace causeway::gpu
