// The test program. Beside Catch2's own report it closes with one line, "N passed, N failed", and how many were
// skipped, where some were.
#define CATCH_CONFIG_RUNNER
#include "core/tensor/random.hpp"
#include "tests/catch.hpp"
#include "tests/proofs/claims.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>

namespace {

#if defined(CATCH_VERSION_MAJOR) && CATCH_VERSION_MAJOR >= 3
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

Catch::Totals totals;

// Each test draws from a seed of its own, so that it draws the same alone as in a whole run; a run takes another seed
// than the last, or CAUSEWAY_TEST_SEED. A test that fails tells it.
std::uint64_t run_seed() {
    static const char* const given = std::getenv("CAUSEWAY_TEST_SEED");
    static const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    return seed;
}

struct Listener : ListenerBase {
    using ListenerBase::ListenerBase;
    void testCaseStarting(const Catch::TestCaseInfo&) override { causeway::random::set_seed(run_seed()); }
    void testCaseEnded(const Catch::TestCaseStats& stats) override {
        if (stats.totals.testCases.failed > 0)
            std::printf("CAUSEWAY_TEST_SEED=%llu draws the same numbers again\n",
                        static_cast<unsigned long long>(run_seed()));
    }
    void testRunEnded(const Catch::TestRunStats& stats) override { totals = stats.totals; }
};
CATCH_REGISTER_LISTENER(Listener)

}  // namespace

int main(int argc, char** argv) {
    Catch::Session session;
    const int usage = session.applyCommandLine(argc, argv);
    if (usage != 0) return usage;
    // Tests neither read nor write the user's own cache, nor what an earlier run under the same number left behind.
    std::string cache = (std::filesystem::temp_directory_path() / "causeway-tests-XXXXXX").string();
    if (!::mkdtemp(cache.data())) {
        std::fprintf(stderr, "%s: cannot make a folder for the tests\n", cache.c_str());
        return 1;
    }
    ::setenv("XDG_CACHE_HOME", cache.c_str(), 1);
    const int failed = session.run();
    std::error_code ignored;
    std::filesystem::remove_all(cache, ignored);
    if (session.config().hasTestFilters()) causeway::proofs::print_claims(stdout);
    const auto cases = totals.testCases;
    if (cases.total() > 0) {
        const int skipped = causeway::test::skipped_tests();
        std::printf("%d passed, %d failed", static_cast<int>(cases.passed + cases.failedButOk) - skipped,
                    static_cast<int>(cases.failed));
        if (skipped > 0) std::printf(", %d skipped", skipped);
        std::printf("\n");
    }
    const auto& config = session.config();
    const bool only_lists = config.listTests() || config.listTags() || config.listReporters();
    if (failed == 0 && cases.total() == 0 && !only_lists) {
        std::fprintf(stderr, "no test has this name or tag\n");
        return 1;
    }
    return failed == 0 ? 0 : 1;
}
