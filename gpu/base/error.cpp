#include "gpu/base/error.hpp"

#include <unistd.h>

#include <atomic>

namespace causeway::gpu {
namespace {

std::atomic<pid_t> used_by{0};  // the process that used CUDA first, 0: none did

}  // namespace

void note_use() noexcept {
    pid_t nobody = 0;
    if (used_by.load(std::memory_order_relaxed) == 0) used_by.compare_exchange_strong(nobody, ::getpid());
}

bool forked_after_use() noexcept {
    const pid_t user = used_by.load();
    return user != 0 && user != ::getpid();
}

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
