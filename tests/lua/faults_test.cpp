// Any allocation may fail, and any start of a thread: a sample of what causeway-faults runs (tests/faults/main.cpp).
#include "core/tensor/random.hpp"
#include "tests/faults/sample.hpp"

namespace {

void run_sample(const std::string& arguments) {
    const std::string seed = std::to_string(causeway::random::seed() % 1000);
    causeway::test::run_sample("causeway-faults", arguments + " --seed " + seed, "tests of allocations that fail");
}

}  // namespace

TEST_CASE("any allocation may fail: a sample", "[lua][faults]") { run_sample("--every 8 --most 12"); }

TEST_CASE("any start of a thread may fail: a sample", "[lua][faults]") { run_sample("--threads --every 16 --most 4"); }

TEST_CASE("causeway-faults says its options", "[lua][faults]") {
    causeway::test::check_options("causeway-faults", "tests of allocations that fail");
}
