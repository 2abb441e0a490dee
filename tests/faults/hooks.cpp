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
std::atomic<Look> looks{nullptr};
std::atomic<bool> kept{false};
thread_local bool looking = false;
thread_local int mutexes = 0;

bool refuse(Call kind) noexcept {
    if (armed.load(std::memory_order_relaxed) != static_cast<int>(kind) || looking) return false;
    const long now = made.fetch_add(1) + 1;
    if (const Look look = looks.load()) {
        looking = true;
        look(now);
        looking = false;
    }
    const long first = first_refused.load();
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
    refuse_from(first, lasting);
    armed = static_cast<int>(kind);
}

void arm(Call kind, Look look) noexcept {
    made = refused = 0;
    refuse_from(0, false);
    looks = look;
    armed = static_cast<int>(kind);
}

void refuse_from(long first, bool lasting) noexcept {
    looks = nullptr;
    first_refused = first;
    stays = lasting;
}

Counts disarm() noexcept {
    armed = -1;
    looks = nullptr;
    return {made.load(), refused.load()};
}

long live_blocks() noexcept { return live.load(); }

void only_count_frees() noexcept { kept = true; }

int mutexes_held() noexcept { return mutexes; }

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
    if (!causeway::faults::kept.load(std::memory_order_relaxed)) __libc_free(block);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
    using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
    if (causeway::faults::refuse(causeway::faults::Call::thread)) return EAGAIN;
    return create(thread, attributes, start, argument);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
    static const auto lock = reinterpret_cast<int (*)(pthread_mutex_t*)>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
    const int failed = lock(mutex);
    if (!failed) ++causeway::faults::mutexes;
    return failed;
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
    static const auto lock = reinterpret_cast<int (*)(pthread_mutex_t*)>(dlsym(RTLD_NEXT, "pthread_mutex_trylock"));
    const int failed = lock(mutex);
    if (!failed) ++causeway::faults::mutexes;
    return failed;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
    static const auto unlock = reinterpret_cast<int (*)(pthread_mutex_t*)>(dlsym(RTLD_NEXT, "pthread_mutex_unlock"));
    const int failed = unlock(mutex);
    if (!failed) --causeway::faults::mutexes;
    return failed;
}
}
