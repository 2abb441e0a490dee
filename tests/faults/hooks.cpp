#include "tests/faults/hooks.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <limits>

namespace causeway::faults {
namespace {

std::atomic<int> armed{-1};  // the kind of call, -1: none
std::atomic<long> first_refused{0}, made{0}, refused{0}, live{0};
std::atomic<bool> stays{false};

bool refuse(Call kind) noexcept {
    if (armed.load(std::memory_order_relaxed) != static_cast<int>(kind)) return false;
    const long now = made.fetch_add(1) + 1, first = first_refused.load();
    const bool is = first > 0 && (now == first || (stays.load() && now > first));
    if (is) refused.fetch_add(1);
    return is;
}

void* counted(void* block) noexcept {
    if (block) live.fetch_add(1, std::memory_order_relaxed);
    return block;
}

}  // namespace

void arm(Call kind, long first, bool lasting) noexcept {
    made = refused = 0;
    first_refused = first;
    stays = lasting;
    armed = static_cast<int>(kind);
}

Counts disarm() noexcept {
    armed = -1;
    return {made.load(), refused.load()};
}

long live_blocks() noexcept { return live.load(); }

}  // namespace causeway::faults

// The C library's own functions under the names that it keeps for programs that replace them.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t bytes) {
    using namespace causeway::faults;
    if (refuse(Call::allocation)) return errno = ENOMEM, nullptr;
    return counted(__libc_malloc(bytes));
}

void* calloc(std::size_t count, std::size_t bytes) {
    using namespace causeway::faults;
    if (refuse(Call::allocation)) return errno = ENOMEM, nullptr;
    return counted(__libc_calloc(count, bytes));
}

void* realloc(void* block, std::size_t bytes) {
    using namespace causeway::faults;
    if (refuse(Call::allocation)) return errno = ENOMEM, nullptr;
    void* moved = __libc_realloc(block, bytes);
    if (!block) counted(moved);
    else if (bytes == 0 && !moved) live.fetch_sub(1, std::memory_order_relaxed);
    return moved;
}

void* memalign(std::size_t alignment, std::size_t bytes) {
    using namespace causeway::faults;
    if (refuse(Call::allocation)) return errno = ENOMEM, nullptr;
    return counted(__libc_memalign(alignment, bytes));
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
    *block = memalign(alignment, bytes);
    return *block ? 0 : ENOMEM;
}

void free(void* block) {
    if (block) causeway::faults::live.fetch_sub(1, std::memory_order_relaxed);
    __libc_free(block);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
    using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
    if (causeway::faults::refuse(causeway::faults::Call::thread)) return EAGAIN;
    return create(thread, attributes, start, argument);
}
}
