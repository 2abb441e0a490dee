// Long computations that never look at interrupt::check(), such as the decompositions of Eigen, stopped all the same.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace causeway {

namespace detail {

// What the two threads share.
struct Abandonable {
    virtual ~Abandonable() = default;
    virtual void run() = 0;

    std::mutex mutex;
    std::condition_variable ended;
    bool done = false;
    std::exception_ptr error;
};

void run_abandonable(const std::shared_ptr<Abandonable>& work);

}  // namespace detail

// Returns f(), computed on a thread of its own while this one waits and looks at interrupt::check(). Where that throws,
// the computation is abandoned: its thread goes on until f has returned, and what it made is dropped. (At a lower
// priority it might wait long with a lock of the allocator or of the memory map, for which all others wait.) So f owns
// all that it uses, the memory that is counted for it too; nothing in it may refer to variables of the caller. What f
// spreads over the pool runs on its thread alone. Throws what f throws. Where no thread can be started, f runs on this
// one and cannot be stopped.
template <class F>
auto abandonable(F f) {
    struct Work : detail::Abandonable {
        explicit Work(F&& given) : function(std::move(given)) {}
        void run() override { result.emplace(function()); }
        F function;
        std::optional<decltype(f())> result;
    };
    const auto work = std::make_shared<Work>(std::move(f));
    detail::run_abandonable(work);
    return *std::move(work->result);
}

}  // namespace causeway
