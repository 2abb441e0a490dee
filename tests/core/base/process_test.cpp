// Inside other programs: they fork after a call has started threads, and exit while a thread computes.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "core/base/parallel.hpp"
#include "core/exact/causal_linear_attention.hpp"
#include "core/exact/choice.hpp"
#include "core/tensor/random.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/temporary.hpp"
#include "tests/threads.hpp"

#if !defined(__SANITIZE_THREAD__)  // which does not follow a process with threads through fork()

using namespace causeway;

namespace {

constexpr unsigned patience = 60;  // seconds after which the alarm ends a child that hangs

// Enough for every worker; the same bits for the same seed.
double compute(std::uint64_t seed) {
    random::set_seed(seed);
    const Tensor x = random::normal(DType::f32, {1, 4, 300, 16});
    CausalOptions options;
    options.method = "block-based";
    const Tensor out = causal_linear_attention(x, x, x, options).O;
    double sum = 0;
    for (Index i = 0; i < out.size(); ++i) sum += static_cast<double>(out.data<float>()[i]);
    return sum;
}

// The status of a child that runs f: 0 where f returns, or what waitpid tells.
template <class F>
int status_of_child(F f) {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        alarm(patience);
        f();
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

// A thread that computes until the end of its scope.
class Busy {
public:
    Busy() {
        while (calls_ < 3) std::this_thread::yield();
    }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;
    ~Busy() {
        stop_ = true;
        thread_.join();
    }

private:
    std::atomic<bool> stop_{false};
    std::atomic<int> calls_{0};
    std::thread thread_{[this] {
        for (; !stop_; ++calls_) parallel_for(64, [](Index) { compute(7); });
    }};
};

// An emulator cannot go on in a child whose parent had threads.
bool can_fork() {
    if (emulator().empty()) return true;
    test::skip("tests of programs that fork", "the emulator of this processor ends a child whose parent has threads");
    return false;
}

}  // namespace

TEST_CASE("a forked child computes what its parent computes", "[base][process]") {
    if (!can_fork()) return;
    const test::Threads threads(3);
    const double expected = compute(1);
    for (int i = 0; i < 4; ++i) {
        CHECK(status_of_child([&] {
                  if (compute(1) != expected) _exit(1);
                  // And a child of the child, which has used its own threads.
                  if (status_of_child([&] { _exit(compute(1) == expected ? 0 : 1); }) != 0) _exit(2);
              }) == 0);
    }
    CHECK(compute(1) == expected);
}

TEST_CASE("a forked child knows which methods its parent has timed", "[base][process]") {
    if (!can_fork()) return;
    const exact::Question question{DType::f64, 1, 50, 4, 4, false, false, false, 0};
    const std::string name = exact::fastest(question).name;
    const testing::TemporaryFolder folder;
    CHECK(status_of_child([&] {
              // Neither from a file nor by timing, after which there would be one.
              setenv("XDG_CACHE_HOME", folder.path().c_str(), 1);
              if (exact::fastest(question).name != name) _exit(1);
              if (std::filesystem::exists(exact::choice_file())) _exit(2);
          }) == 0);
}

// The address sanitizer looks for leaks at exit, and takes what the parent had for them; and its allocator may be
// locked by a thread that a child does not have.
#if !defined(__SANITIZE_ADDRESS__)

TEST_CASE("a child that is forked while another thread computes computes", "[base][process]") {
    if (!can_fork()) return;
    const test::Threads threads(3);
    const double expected = compute(1);
    const Busy busy;
    for (int i = 0; i < 16; ++i) CHECK(status_of_child([&] { _exit(compute(1) == expected ? 0 : 1); }) == 0);
}

TEST_CASE("a forked child exits, whatever threads its parent had", "[base][process]") {
    if (!can_fork()) return;
    const test::Threads threads(3);
    compute(1);
    CHECK(status_of_child([] { std::exit(0); }) == 0);
}

TEST_CASE("a program exits while one of its threads computes", "[base][process]") {
    if (!can_fork()) return;
    const test::Threads threads(3);
    for (int i = 0; i < 24; ++i) {
        CHECK(status_of_child([] {
                  new Busy;  // never ended
                  std::exit(0);
              }) == 0);
    }
}

#endif
#endif
