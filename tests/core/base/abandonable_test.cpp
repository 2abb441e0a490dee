// Computations that are given up: by whom, how soon, and what is left of them.
#include "core/base/abandonable.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/memory.hpp"
#include "core/base/parallel.hpp"
#include "core/tensor/linalg.hpp"
#include "core/tensor/matmul.hpp"
#include "core/tensor/random.hpp"
#include "core/tensor/rearrange.hpp"
#include "tests/catch.hpp"
#include "tests/sanitized.hpp"

using namespace causeway;
using causeway::test::sanitized;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

// Whether so many bytes are held again within a minute.
bool held_again(std::size_t bytes) {
    for (const auto limit = Clock::now() + 60s; Clock::now() < limit; std::this_thread::sleep_for(5ms)) {
        if (memory::current() == bytes) return true;
    }
    return false;
}

}  // namespace

TEST_CASE("what an abandonable function returns or throws comes to the caller", "[interrupt]") {
    CHECK(abandonable([] { return std::string(100, 'x'); }) == std::string(100, 'x'));
    CHECK_THROWS_WITH(abandonable([]() -> int { fail("as asked"); }), "as asked");
    // As a task of the pool, whose other tasks the function cannot wait for.
    std::vector<int> sums(8);
    parallel_for(8, [&](Index i) {
        sums[static_cast<std::size_t>(i)] = abandonable([i] {
            std::atomic<int> sum{0};
            parallel_for(100, [&](Index j) { sum += static_cast<int>(i * j); });
            return sum.load();
        });
    });
    for (int i = 0; i < 8; ++i) CHECK(sums[static_cast<std::size_t>(i)] == i * 4950);
}

TEST_CASE("an interrupt or a time limit abandons a function, which keeps what it owns until it ends", "[interrupt]") {
    const bool limited = GENERATE(false, true);
    CAPTURE(limited);
    const std::size_t before = memory::current();
    const auto go = std::make_shared<std::atomic<bool>>(false);
    interrupt::clear();
    if (limited) interrupt::set_deadline(0.05);
    else interrupt::request();
    auto work = [go, memory = Buffer<double>(1000)]() mutable {
        while (!*go) std::this_thread::sleep_for(1ms);
        return memory[999] = 1;
    };
    // It would go on for good: whoever waited for its end would not come back.
    if (limited) CHECK_THROWS_AS(abandonable(std::move(work)), Timeout);
    else CHECK_THROWS_AS(abandonable(std::move(work)), Interrupted);
    interrupt::set_deadline(0);
    interrupt::clear();
    CHECK(memory::current() == before + 8000);
    *go = true;
    CHECK(held_again(before));
}

TEST_CASE("an interrupt stops every decomposition of a large matrix, whose memory is given back when it ends",
          "[interrupt][linalg]") {
    struct Decomposition {
        const char* name;
        // So large that it takes far longer than the copy of the matrix and the start of a thread, which matrices of
        // fewer than 256 rows do without.
        Index n, n_sanitized;
        void (*of)(const Tensor&);
    };
    const Decomposition all[] = {
        {"svd", 400, 260, [](const Tensor& x) { svd(x); }},
        {"svdvals", 400, 260, [](const Tensor& x) { svdvals(x); }},
        {"qr", 800, 400, [](const Tensor& x) { qr(x); }},
        {"eigvals", 400, 260, [](const Tensor& x) { eigvals(x); }},
        {"cholesky", 1600, 800, [](const Tensor& x) { cholesky(x); }},
        {"inv", 1200, 600, [](const Tensor& x) { inv(x); }},
    };
    for (const Decomposition& decomposition : all) {
        CAPTURE(decomposition.name);
        const Index n = sanitized ? decomposition.n_sanitized : decomposition.n;
        const Tensor a = random::normal(DType::f64, Shape{n, n});
        const Tensor symmetric = matmul(a, transpose(a));
        const std::size_t before = memory::current();
        const auto time = [&](auto&& f) {
            const auto begun = Clock::now();
            f();
            return Clock::now() - begun;
        };
        const auto whole = time([&] { decomposition.of(symmetric); });
        // The shortest of some: what other programs take of the processor is no matter of this.
        auto shortest = whole;
        for (int i = 0; i < (sanitized ? 2 : 3); ++i) {
            interrupt::request();
            shortest = std::min(shortest, time([&] { CHECK_THROWS_AS(decomposition.of(symmetric), Interrupted); }));
            interrupt::clear();
            CHECK(held_again(before));
        }
        CAPTURE(whole / 1us, shortest / 1us);
        CHECK(shortest < whole / 2);
    }
    const Index n = sanitized ? 260 : 400;
    const Tensor a = random::normal(DType::f64, Shape{n, n});
    const std::size_t before = memory::current();
    interrupt::request();
    CHECK_THROWS_AS(eigvals(a), Interrupted);  // those of a matrix that is not symmetric go another way
    interrupt::clear();
    CHECK(held_again(before));
}
