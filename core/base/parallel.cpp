#include "core/base/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/process.hpp"
#include "core/base/processors.hpp"
#include "core/base/stack_of_thread.hpp"

namespace causeway {
namespace {

constexpr int max_threads = 1024;

thread_local bool inside_task = false;

struct Job {
    detail::Task task;
    void* context;
    Index n;
    std::atomic<Index> next{0};
    std::atomic<bool> failed{false};
    std::exception_ptr error;  // written once, by the task that set `failed`

    void run() {
        inside_task = true;
        for (Index i; !failed.load(std::memory_order_relaxed) && (i = next.fetch_add(1)) < n;) {
            try {
                interrupt::check();
                task(context, i);
            } catch (...) {
                if (!failed.exchange(true)) error = std::current_exception();
            }
        }
        inside_task = false;
    }
};

class Pool {
public:
    explicit Pool(int size) {
        workers_.reserve(static_cast<std::size_t>(size));
        try {
            for (int i = 1; i < size; ++i) workers_.emplace_back([this] { work(); });
        } catch (const std::system_error&) {  // no more threads to be had
            const bool no_memory = no_room_for_stacks();
            const std::size_t started = workers_.size() + 1;
            stop();
            if (no_memory) fail_as<OutOfMemory>("out of memory: threads: ", size, ", there was room for ", started);
            fail("threads: ", size, " were asked for and only ", started, " could be started");
        } catch (...) {  // no memory for one more
            stop();
            throw;
        }
    }

    ~Pool() { stop(); }

    int size() const { return static_cast<int>(workers_.size()) + 1; }

    void run(Job& job) {
        {
            std::lock_guard lock(mutex_);
            job_ = &job;
            running_ = static_cast<int>(workers_.size());
            round_.fetch_add(1);
        }
        wake_.notify_all();
        job.run();
        // Rounds are short where methods synchronise per wave of blocks: look a while before sleeping.
        for (int i = 0; i < spins && running_.load(std::memory_order_acquire) > 0; ++i) pause();
        std::unique_lock lock(mutex_);
        done_.wait(lock, [&] { return running_ == 0; });
        job_ = nullptr;
    }

private:
    static constexpr int spins = 2000;

    void stop() {
        {
            std::lock_guard lock(mutex_);
            quit_ = true;
        }
        wake_.notify_all();
        for (auto& worker : workers_) worker.join();
        workers_.clear();
    }

    static void pause() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }

    void work() {
        for (unsigned seen = 0;;) {
            for (int i = 0; i < spins && round_.load(std::memory_order_acquire) == seen; ++i) pause();
            Job* job;
            {
                std::unique_lock lock(mutex_);
                wake_.wait(lock, [&] { return quit_ || round_ != seen; });
                if (quit_) return;
                seen = round_;
                job = job_;
            }
            job->run();
            {
                std::lock_guard lock(mutex_);
                --running_;
            }
            done_.notify_one();
        }
    }

    std::vector<std::thread> workers_;
    std::mutex mutex_;
    std::condition_variable wake_, done_;
    Job* job_ = nullptr;
    std::atomic<int> running_{0};
    std::atomic<unsigned> round_{0};
    bool quit_ = false;
};

// The number that CAUSEWAY_THREADS asks for; 0 where it is not set, -1 where it is no possible number of threads.
int threads_asked_for() {
    const char* wish = std::getenv("CAUSEWAY_THREADS");
    if (!wish || !*wish) return 0;
    char* end = nullptr;
    const long n = std::strtol(wish, &end, 10);
    return *end == '\0' && n >= 1 && n <= max_threads ? static_cast<int>(n) : -1;
}

int default_threads() {
    const int asked = threads_asked_for();
    return asked > 0 ? asked : std::min(processors(), max_threads);
}

std::atomic<int> wanted{0};  // 0: not decided yet

// Never destroyed: a program may exit while one of its threads computes, and must not wait for the workers then.
struct Workers {
    std::mutex mutex;  // one parallel region at a time; guards `pool`
    std::unique_ptr<Pool> pool;
    Pool* of_parent = nullptr;
};

// A forked child has one thread: no worker lives there, and the mutex may be held by a thread that does not. What the
// parent had is left alone, for the pool's end would wait for its workers, and the child starts its own.
Workers& workers() {
    static auto& one = *[] {
        auto made = std::make_unique<Workers>();
        process::after_fork([] {
            Pool* const before = workers().pool.release();
            new (&workers()) Workers{{}, nullptr, before};
        });
        process::keep_code_loaded();
        return made.release();
    }();
    return one;
}

}  // namespace

int threads() noexcept {
    if (wanted.load() == 0) wanted.store(default_threads());
    return wanted.load();
}

int threads_here() noexcept { return inside_task ? 1 : threads(); }

std::string threads_fault() {
    if (threads_asked_for() >= 0) return "";
    return sentence("CAUSEWAY_THREADS: ", std::getenv("CAUSEWAY_THREADS"), ", expected a number from 1 to ",
                    max_threads);
}

void set_threads(int n) {
    if (n < 1 || n > max_threads) fail("threads: ", n, ", expected a number from 1 to ", max_threads);
    wanted.store(n);
}

Serially::Serially() noexcept : before_(inside_task) { inside_task = true; }
Serially::~Serially() { inside_task = before_; }

void detail::parallel_for(Index n, Task task, void* context) {
    Job job{task, context, n, {}, {}, {}};
    if (inside_task) {
        for (Index i = 0; i < n; ++i) {
            interrupt::check();
            task(context, i);
        }
        return;
    }
    if (n <= 1 || threads() == 1) {
        job.run();
    } else {
        Workers& w = workers();
        std::lock_guard lock(w.mutex);
        if (!w.pool || w.pool->size() != threads()) {
            w.pool.reset();
            w.pool = std::make_unique<Pool>(threads());
        }
        w.pool->run(job);
    }
    if (job.failed) std::rethrow_exception(job.error);
}

}  // namespace causeway
