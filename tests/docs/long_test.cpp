// The long runs of docs/reliability.md: what ./lab builds for them, and what they keep.
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
using causeway::testing::write_bytes;

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

TEST_CASE(
    "libraries for aarch64 whose unpacking was interrupted are unpacked anew, and only the run of that name fails",
    "[docs][long]") {
    if (std::system("test \"$(uname -m)\" != aarch64") != 0) {
        causeway::test::skip("tests of what is built for aarch64", "this is that processor");
        return;
    }
    const TemporaryFolder folder;
    const auto stub = [&](const std::string& name, const std::string& text) {
        const std::string path = folder / "bin/" + name;
        write_bytes(path, "#!/bin/sh\n" + text + "\n");
        std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    };
    std::filesystem::create_directories(folder / "bin");
    std::filesystem::create_directories(folder / "build");
    // A link made now is newer than every source: the shell is not built again.
    std::filesystem::create_symlink(program_path(), folder / "build/causeway");
    stub("dpkg", "echo amd64");
    stub("dpkg-query", "echo install ok installed all");
    stub("sudo", "exec \"$@\"");
    stub("cmake", "true");
    stub("aarch64-linux-gnu-g++", "true");
    stub("qemu-aarch64", "echo the tests ran");
    // As debootstrap does: it ends half-way while this file is there, and refuses what is half done.
    write_bytes(folder / "interrupts", "");
    stub("debootstrap",
         "for root; do :; done\n"
         "if [ -e \"$root/half\" ]; then echo 'file already exists'; exit 1; fi\n"
         "mkdir -p \"$root/usr/lib\"; touch \"$root/half\"; echo half done\n"
         "test ! -e " +
             folder / "interrupts");
    const auto lab = [&](const std::string& words) {
        return of_command("PATH=" + folder / "bin" + ":$PATH CAUSEWAY_BUILD=" + folder / "build" + " " + source_dir() +
                              "/lab test " + words,
                          folder);
    };
    const Output skipped = lab("--long aarch64");
    INFO(skipped.out);
    CHECK(contains(skipped.out, "the libraries for aarch64 could not be fetched: half done"));
    CHECK(contains(skipped.out, "the run aarch64 is skipped: its tests could not be built"));
    CHECK(contains(skipped.out, "1 of 1 not run"));
    std::filesystem::remove(folder / "interrupts");
    const Output whole = lab("--aarch64");
    CHECK(contains(whole.out, "unpacking libraries for aarch64"));
    CHECK(contains(whole.out, "the tests ran"));
    CHECK(whole.status == 0);
    CHECK_FALSE(contains(lab("--aarch64").out, "unpacking"));
}

TEST_CASE("a shortened long run keeps nothing, and a + behind a tree speaks of what no run writes", "[docs][long]") {
    const TemporaryFolder folder;
    const std::string counts = folder / "tests/long/counts.csv", page = folder / "docs/reliability.md";
    for (const char* name : {"tests/long", "tests/proofs", "docs", "build/tests"})
        std::filesystem::create_directories(folder / name);
    std::filesystem::copy(long_runs, folder / "tests/long/run.lua");
    write_bytes(counts, "name,cases,faults,seconds,tree,date\n");
    write_bytes(page, "<!-- counts -->\n<!-- end of counts -->\n");
    write_bytes(folder / "tests/proofs/worst_inputs.txt", "none\n");
    write_bytes(folder / "code", "1\n");
    write_bytes(folder / ".gitignore", "/build/\n/said\n");
    const std::string program = folder / "build/tests/causeway-tests", kept = folder / "build/keeps";
    write_bytes(program, "#!/bin/sh\necho \"$CAUSEWAY_ADVERSARY_KEEPS\" >" + kept + "\necho 5 cases, 0 faults\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    const auto run = [&](const std::string& word, const std::string& environment = "") {
        return of_command("CAUSEWAY_LONG_MINUTES= CAUSEWAY_LONG_PLACES= " + environment + " " + program_path() + " " +
                              folder / "tests/long/run.lua" + " " + folder / "build" + " --only " + word,
                          folder);
    };
    const auto has_plus = [&](const std::string& name) {
        const std::string text = read_bytes(counts);
        const std::size_t at = text.find("\n" + name + ",5,0,");
        REQUIRE(at != std::string::npos);
        return contains(text.substr(at + 1, text.find('\n', at + 1) - at), "+,");
    };

    const std::string no_counts = read_bytes(counts), no_table = read_bytes(page);
    for (const std::string name : {"CAUSEWAY_LONG_MINUTES=0.2", "CAUSEWAY_LONG_PLACES=1"}) {
        const Output shortened = run("adversary", name);
        INFO(shortened.out);
        CHECK(shortened.status == 0);
        CHECK(contains(shortened.out, "5 cases, 0 faults"));
        CHECK(contains(shortened.out,
                       "nothing of this is kept, since " + name.substr(0, name.find('=')) + " shortened it\n"));
        CHECK(read_bytes(counts) == no_counts);
        CHECK(read_bytes(page) == no_table);
        CHECK(read_bytes(kept) == "no\n");
    }

    if (std::system("git --version >/dev/null 2>&1") != 0)
        return causeway::test::skip("trees of long runs", "there is no git");
    REQUIRE(of_command("cd " + folder.path() +
                           " && git init -q && git add -A && git -c user.name=a -c user.email=a@b "
                           "commit -q -m all",
                       folder)
                .status == 0);
    CHECK_FALSE(contains(run("adversary").out, "nothing of this is kept"));
    CHECK(read_bytes(kept) == "yes\n");
    CHECK_FALSE(has_plus("adversary"));
    CHECK(contains(read_bytes(page), "| 5 | 0 |"));
    write_bytes(folder / "tests/proofs/worst_inputs.txt", "one\n");
    run("poison");
    CHECK_FALSE(has_plus("poison"));
    write_bytes(folder / "code", "2\n");
    run("bits");
    CHECK(has_plus("bits"));
}

#ifndef CAUSEWAY_GPU
TEST_CASE("the samples of the long runs on a GPU count as skipped in a build without CUDA", "[docs][long]") {
    const TemporaryFolder folder;
    const auto tests = std::filesystem::path(program_path()).parent_path() / "tests/causeway-tests";
    for (const std::string tag : {"gpu-faults", "gpu-bits", "gpu-shapes", "gpu-poison"}) {
        const Output skipped = of_command(tests.string() + " '[" + tag + "]'", folder);
        INFO(tag << ": " << skipped.out);
        CHECK(skipped.status == 0);
        CHECK(contains(skipped.out, "./lab build gpu"));
        CHECK(contains(skipped.out, "0 passed, 0 failed, 1 skipped\n"));
    }
}
#endif
