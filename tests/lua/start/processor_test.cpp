// The program on processors that lack what it was built for, as qemu makes them.
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

#include "tests/catch.hpp"
#include "tests/lua/program.hpp"

using namespace causeway::testing;

namespace {

// What the program prints for --version on this processor; qemu says on lines of its own what it cannot do.
Output on(const std::string& processor, const TemporaryFolder& folder) {
    const int status = std::system(("qemu-x86_64 -cpu " + processor + " '" + program_path() + "' --version >" +
                                    (folder / "out") + " 2>" + (folder / "err"))
                                       .c_str());
    std::istringstream lines(read_bytes(folder / "err"));
    std::string err;
    for (std::string line; std::getline(lines, line);)
        if (line.find("qemu") != 0) err += line + "\n";
    return {shell_status(status), read_bytes(folder / "out"), err};
}

}  // namespace

TEST_CASE("a processor that lacks what the program was built for is told so, none ends it without a word",
          "[lua][start]") {
#if defined(__x86_64__)
    if (run_command("qemu-x86_64 --version") != 0) {
        causeway::test::skip("programs on older processors", "qemu-user is not installed");
        return;
    }
    const TemporaryFolder folder;
    const std::string lacks = "causeway: this program was built for a processor with ";
    // Without AVX, with AVX alone, with AVX2.
    for (const std::string processor : {"Nehalem", "SandyBridge", "Haswell"}) {
        CAPTURE(processor);
        const Output output = on(processor, folder);
        const bool told = output.status == 1 && output.err.find(lacks) == 0 && count(output.err, "\n") == 1;
        const bool runs = output.status == 0 && output.out.find("causeway ") == 0;
        CHECK((told || runs));
#ifdef __AVX2__
        if (processor != "Haswell") CHECK(told);
#endif
#ifndef __AVX__
        CHECK(runs);
#endif
    }
#else
    causeway::test::skip("programs on older processors", "this is no x86-64 processor");
#endif
}

TEST_CASE("a program for every processor goes on as the one beside it that is built for this one", "[lua][start]") {
#if defined(__x86_64__)
    const TemporaryFolder folder;
    const auto plain = std::filesystem::path(program_path()).parent_path() / "tests" / "causeway-start-test";
    const std::string libexec = folder / "libexec/causeway", program = folder / "bin/causeway";
    std::filesystem::create_directories(folder / "bin");
    std::filesystem::copy_file(plain, program);
    const auto says = [&] {
        REQUIRE(std::system((program + " -e 'print(1)' >" + (folder / "out")).c_str()) == 0);
        return read_bytes(folder / "out");
    };
    CHECK(says() == "for every processor\n");
    std::string best = "for every processor\n";
    __builtin_cpu_init();
    for (const std::string level : {"x86-64-v3", "x86-64-v4"}) {
        std::filesystem::create_directories(libexec + "/" + level);
        write_bytes(libexec + "/" + level + "/causeway", "#!/bin/sh\necho for " + level + ": \"$@\"\n");
        std::filesystem::permissions(libexec + "/" + level + "/causeway", std::filesystem::perms::owner_all);
        const bool runs = level == "x86-64-v3"
                              ? __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
                              : __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
        if (runs) best = "for " + level + ": -e print(1)\n";
        CHECK(says() == best);
    }
#else
    causeway::test::skip("a program for every processor", "this is no x86-64 processor");
#endif
}
