// A sample of what a program of tests/faults runs, as a test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/catch.hpp"
#include "tests/lua/program.hpp"
#include "tests/paths.hpp"
#include "tests/temporary.hpp"

namespace causeway::test {

// Runs the program, which must find no fault; where it is not built, the tests of `what` count as skipped.
inline void run_sample(const std::string& name, const std::string& arguments, const std::string& what) {
    const auto program = std::filesystem::path(program_path()).parent_path() / "tests" / name;
    if (!std::filesystem::exists(program)) {
        skip(what, name + " is not built, nor can it be with the sanitizers, whose functions are in the same places");
        return;
    }
    const testing::TemporaryFolder folder;
    const int status = std::system((program.string() + " " + arguments + " >" + (folder / "out") + " 2>&1").c_str());
    INFO(testing::read_bytes(folder / "out"));
    CHECK(status == 0);
    CHECK(testing::read_bytes(folder / "out").find(" cases, ") != std::string::npos);
}

// Looks at what the program says of its options; where it is not built that is a test of `what` that is skipped.
inline void check_options(const std::string& name, const std::string& what) {
    const auto program = std::filesystem::path(program_path()).parent_path() / "tests" / name;
    if (!std::filesystem::exists(program)) return skip(what, name + " is not built");
    const testing::TemporaryFolder folder;
    const std::string out = folder / "out", err = folder / "err";
    const auto status_of = [&](const std::string& option) {
        return std::system((program.string() + " " + option + " >" + out + " 2>" + err).c_str());
    };
    CHECK(status_of("--help") == 0);
    const std::string options = testing::read_bytes(out);
    CHECK(options.rfind(name + " ", 0) == 0);
    CHECK(options.find("\n  --help ") != std::string::npos);
    CHECK(status_of("--helpless") != 0);
    CHECK(testing::read_bytes(out).empty());
    CHECK(testing::read_bytes(err) == name + ": --helpless: unknown, expected one of these options:\n\n" + options);
}

}  // namespace causeway::test
