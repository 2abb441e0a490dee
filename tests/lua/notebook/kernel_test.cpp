// The kernel behind its sockets, from Python: jupyter_kernel_test, and the notebooks of docs/notebooks.
#include <filesystem>
#include <string>

#include "tests/catch.hpp"
#include "tests/lua/program.hpp"
#include "tests/paths.hpp"
#include "tests/temporary.hpp"

using namespace causeway::testing;

namespace {

// Runs a script of tests/notebook on the program; says why not where it cannot run here.
void run_script(const std::string& script, const std::string& modules) {
    const std::string python = python_with(modules);
    const auto kernel = std::filesystem::path(program_path()).parent_path() / "causeway-kernel";
    if (!std::filesystem::exists(kernel)) {
        causeway::test::skip("tests of the notebook's kernel", "it is not built, for want of a xeus that it knows");
        return;
    }
    if (python.empty()) {
        causeway::test::skip("tests of the notebook's kernel", "there is no Python with " + modules);
        return;
    }
    const TemporaryFolder folder;
    const std::string log = folder / "log";
    const int status = run_command(python + " '" + source_dir() + "/tests/notebook/" + script + "' '" + program_path() +
                                   "' > '" + log + "' 2>&1");
    INFO(read_bytes(log));
    CHECK(status == 0);
}

}  // namespace

TEST_CASE("the kernel passes jupyter_kernel_test", "[lua][notebook][kernel]") {
    run_script("kernel.py", "jupyter_kernel_test, nbclient");
}

TEST_CASE("the notebooks of docs run, and show what is committed", "[lua][notebook][kernel]") {
    run_script("notebooks.py", "nbclient");
}

TEST_CASE("nbconvert and papermill run a notebook", "[lua][notebook][kernel]") {
    run_script("tools.py", "nbconvert, papermill");
}

TEST_CASE("--kernel takes a connection file", "[lua][program]") {
    const Output none = run_program({"--kernel"});
    CHECK(none.status == 2);
    CHECK(contains(none.err, "--kernel: expected a connection file after it"));
    const auto kernel = std::filesystem::path(program_path()).parent_path() / "causeway-kernel";
    const Output missing = run_program({"--kernel", "no-such-file"});
    CHECK(missing.status == 1);
    CHECK(contains(missing.err, std::filesystem::exists(kernel) ? "no-such-file: No such file or directory"
                                                                : "./lab notebook builds the kernel"));
}
