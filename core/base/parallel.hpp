// Worker threads. One pool for the process; its size is CAUSEWAY_THREADS or that of processors().
#pragma once

#include <memory>
#include <type_traits>

#include "core/base/memory.hpp"  // Index

namespace causeway {

int threads() noexcept;       // worker threads, the calling one among them
int threads_here() noexcept;  // that parallel_for spreads over where it is called: inside a task one

// Throws Error unless 1 <= n <= 1024.
void set_threads(int n);

// While it lives, what this thread spreads over the pool runs on this thread alone: for threads that are workers
// themselves.
class Serially {
public:
    Serially() noexcept;
    ~Serially();
    Serially(const Serially&) = delete;
    Serially& operator=(const Serially&) = delete;

private:
    bool before_;
};

namespace detail {
using Task = void (*)(void* context, Index i);
void parallel_for(Index n, Task task, void* context);
}  // namespace detail

// Calls task(i) for every i in [0, n), spread over the threads; returns when all are done. Tasks may run in any order
// and must not depend on it, so results do not depend on the number of threads. The first exception thrown by a task
// is rethrown here, after the running tasks have ended; the rest are not started. Between tasks interrupt::check() is
// called. A call from inside a task runs serially.
template <class F>
void parallel_for(Index n, F&& task) {
    using Body = std::remove_reference_t<F>;
    detail::parallel_for(
        n, [](void* context, Index i) { (*static_cast<Body*>(context))(i); },
        const_cast<void*>(static_cast<const void*>(std::addressof(task))));
}

}  // namespace causeway
