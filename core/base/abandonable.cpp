#include "core/base/abandonable.hpp"

#include <chrono>
#include <system_error>
#include <thread>

#include "core/base/interrupt.hpp"
#include "core/base/parallel.hpp"
#include "core/base/process.hpp"

namespace causeway::detail {
namespace {

constexpr std::chrono::milliseconds between_looks{10};

// On the thread of the work, which holds it for as long as it runs, whoever has given it up meanwhile.
void carry_out(const std::shared_ptr<Abandonable>& work) {
    const Serially alone;  // the pool may be waiting for the caller, as one of its tasks
    try {
        work->run();
    } catch (...) {
        work->error = std::current_exception();
    }
    const std::lock_guard lock(work->mutex);
    work->done = true;
    work->ended.notify_one();
}

void wait_for(Abandonable& work) {
    std::unique_lock lock(work.mutex);
    do interrupt::check();
    while (!work.ended.wait_for(lock, between_looks, [&] { return work.done; }));
}

}  // namespace

void run_abandonable(const std::shared_ptr<Abandonable>& work) {
    process::keep_code_loaded();
    std::thread thread;
    try {
        thread = std::thread([work] { carry_out(work); });
    } catch (const std::system_error&) {  // no more threads to be had
        work->run();
        return;
    }
    try {
        wait_for(*work);
    } catch (...) {
        thread.detach();
        throw;
    }
    thread.join();
    if (work->error) std::rethrow_exception(work->error);
}

}  // namespace causeway::detail
