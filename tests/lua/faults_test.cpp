// Any allocation may fail, and any start of a thread: a sample of what causeway-faults runs (tests/faults/main.cpp).
#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/tensor/random.hpp"
#include "tests/catch.hpp"
#include "tests/lua/program.hpp"
#include "tests/paths.hpp"
#include "tests/temporary.hpp"

namespace {

// What the program prints for these arguments, and whether it found no fault.
void run_sample(const std::string& arguments) {
    const auto program = std::filesystem::path(program_path()).parent_path() / "tests" / "causeway-faults";
    if (!std::filesystem::exists(program)) {
        causeway::test::skip("tests of allocations that fail", "the sanitizers have an allocator of their own");
        return;
    }
    const causeway::testing::TemporaryFolder folder;
    const std::string seed = std::to_string(causeway::random::seed() % 1000);
    const int status = std::system(
        (program.string() + " " + arguments + " --seed " + seed + " >" + (folder / "out") + " 2>&1").c_str());
    INFO(causeway::testing::read_bytes(folder / "out"));
    CHECK(status == 0);
    CHECK(causeway::testing::read_bytes(folder / "out").find(" cases, ") != std::string::npos);
}

}  // namespace

TEST_CASE("any allocation may fail: a sample", "[lua][faults]") { run_sample("--every 8 --most 12"); }

TEST_CASE("any start of a thread may fail: a sample", "[lua][faults]") { run_sample("--threads --every 16 --most 4"); }
