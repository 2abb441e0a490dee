// The long runs of docs/reliability.md: what ./lab builds for them.
#include <cstdlib>
#include <filesystem>

#include "tests/catch.hpp"
#include "tests/lua/program.hpp"
#include "tests/paths.hpp"

using causeway::testing::contains;
using causeway::testing::Output;
using causeway::testing::read_bytes;
using causeway::testing::run_program;
using causeway::testing::shell_status;
using causeway::testing::TemporaryFolder;

namespace {

// What a command of the system's shell prints, its errors among it, and its status.
Output of_command(const std::string& command, const TemporaryFolder& folder) {
    const int status = std::system(("( " + command + " ) >" + folder / "said" + " 2>&1 </dev/null").c_str());
    return {shell_status(status), read_bytes(folder / "said"), ""};
}

const std::string long_runs = source_dir() + "/tests/long/run.lua";

}  // namespace

TEST_CASE("a long run of a word that none has is refused before anything is built", "[docs][long]") {
    const TemporaryFolder folder;
    const Output refused =
        of_command("CAUSEWAY_BUILD=" + folder / "build" + " " + source_dir() + "/lab test --long nonsense", folder);
    CHECK(refused.status == 2);
    CHECK(refused.out.find("lab: test: no long run has \"nonsense\" in its name") == 0);
    CHECK_FALSE(std::filesystem::exists(folder / "build"));
    // The names that it tells are those of all runs.
    const std::string by_runs = run_program({long_runs, "build", "--only", "nonsense"}).err;
    const auto names_in = [](const std::string& text) { return text.substr(text.find("tests, aarch64")); };
    REQUIRE(contains(by_runs, "tests, aarch64"));
    REQUIRE(contains(refused.out, "tests, aarch64"));
    CHECK(names_in(refused.out) == names_in(by_runs));
}

TEST_CASE("a long run needs its own programs alone", "[docs][long]") {
    const auto needed = [](const std::string& word) { return run_program({long_runs, "build", "--needs", word}).out; };
    CHECK(needed("npy") == "build-fuzz/tests/fuzz/npy_fuzz\n");
    CHECK(needed("aarch64") == "build-aarch64/tests/causeway-tests\n");
    CHECK(needed("keys") == "build/tests/causeway-keys\nbuild/tests/causeway-with-libedit\n");
    CHECK(needed("bits") == "build/tests/causeway-tests\n");
    CHECK(contains(needed(""), "build/tests/causeway-gpu-tests\n"));
    CHECK(causeway::testing::count(needed(""), "build/tests/causeway-faults\n") == 1);
}
