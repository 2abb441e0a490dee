// Stopping the calls of the C interface: by the host, or by SIGINT where the host asks for that.
#include "core/base/interrupt.hpp"

#include <signal.h>

#include <atomic>

#include "core/c/causeway.h"

namespace {

std::atomic<bool> interruptible{false};
std::atomic<int> caught{0};
static_assert(std::atomic<int>::is_always_lock_free);
struct sigaction before;

void on_interrupt(int) {
    caught.fetch_add(1);
    causeway::interrupt::request();
}

}  // namespace

void causeway_interrupt() { causeway::interrupt::request(); }

void causeway_clear_interrupt() { causeway::interrupt::clear(); }

std::int32_t causeway_begin_interruptible() {
    if (interruptible.exchange(true)) return 0;
    caught.store(0);
    struct sigaction action = {};
    action.sa_handler = on_interrupt;
    action.sa_flags = SA_ONSTACK | SA_RESTART;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGINT, &action, &before) == 0) return 1;
    interruptible.store(false);
    return 0;
}

std::int32_t causeway_end_interruptible() {
    if (!interruptible.load()) return 0;
    sigaction(SIGINT, &before, nullptr);
    const int times = caught.load();
    causeway::interrupt::clear();
    interruptible.store(false);
    return times;
}
