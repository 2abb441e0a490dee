// Which threads of the kernel take interrupts.
#pragma once

#include <csignal>

namespace causeway::lua {

inline sigset_t interrupts() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    return set;
}

// While it lives this thread takes no interrupts (SIG_BLOCK), or takes them (SIG_UNBLOCK); then as before.
class InterruptMask {
public:
    explicit InterruptMask(int how) {
        const sigset_t set = interrupts();
        pthread_sigmask(how, &set, &before_);
    }
    ~InterruptMask() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    InterruptMask(const InterruptMask&) = delete;
    InterruptMask& operator=(const InterruptMask&) = delete;

private:
    sigset_t before_{};
};

}  // namespace causeway::lua
