// The manual as pages: it is made, nothing in it leads nowhere, and search knows all that help knows.
#include <filesystem>

#include "tests/catch.hpp"
#include "tests/lua/program.hpp"
#include "tests/paths.hpp"

using causeway::testing::contains;
using causeway::testing::Output;
using causeway::testing::python_with;
using causeway::testing::read_bytes;
using causeway::testing::run_in;
using causeway::testing::TemporaryFolder;

namespace {

std::string folder_of_generator() { return source_dir() + "/docs/manual"; }

// What a command prints, its errors too, after its status.
std::string said(const std::string& command, const TemporaryFolder& folder) {
    const int status = std::system((command + " >" + folder / "said" + " 2>&1").c_str());
    return std::to_string(status) + " " + read_bytes(folder / "said");
}

// A Python for the generator, or "" with a note that the tests are skipped.
std::string python_of_manual() {
    const std::string python = python_with("markdown_it");
    if (python.empty()) causeway::test::skip("tests of the manual", "there is no python3 with markdown_it");
    return python;
}

}  // namespace

TEST_CASE("the parts of the manual's generator hold", "[docs][manual]") {
    const std::string python = python_of_manual();
    if (python.empty()) return;
    const TemporaryFolder folder;
    CHECK(said(python + " " + source_dir() + "/tests/docs/manual.py " + folder_of_generator(), folder) ==
          "0 the parts of the manual hold\n");
}

TEST_CASE("the manual is made, and every link in it leads somewhere", "[docs][manual]") {
    const std::string python = python_of_manual();
    if (python.empty()) return;
    if (std::system("doxygen --version >/dev/null 2>&1") != 0) {
        causeway::test::skip("tests of the manual", "there is no doxygen");
        return;
    }
    const TemporaryFolder folder;
    const std::string site = folder / "site";
    const std::string command =
        python + " " + folder_of_generator() + "/build.py " + source_dir() + " " + program_path() + " " + site;
    const std::string output = said(command, folder);
    CAPTURE(output);
    REQUIRE(contains(output, "every link within them checked"));
    CHECK(output.rfind("0 ", 0) == 0);
    // Made again in its own folder, and in no other.
    CHECK(said(command, folder).rfind("0 ", 0) == 0);
    CHECK(contains(said(python + " " + folder_of_generator() + "/build.py " + source_dir() + " " + program_path() +
                            " " + source_dir() + "/docs",
                        folder),
                   "holds something else"));

    const std::string index = read_bytes(site + "/search-index.js");
    for (const char* name :
         {"help/attention.html#fleet", "help/attention.html#causal_linear_attention", "proofs/masking.html#",
          "cpp/core/gated/linear_attention.hpp.html#", "cpp/c.html#", "python.html#linear_attention",
          "docs/kernels/gated.html#", "docs/performance.html#", "docs/notebooks/fleet.html#"}) {
        CAPTURE(name);
        CHECK(contains(index, name));
    }
    CHECK(contains(read_bytes(site + "/docs/tutorial.html"), "<h1 id=\"ten-minutes\">"));
    CHECK(contains(read_bytes(site + "/docs/notebooks/ten_minutes.html"), "<img src=\"ten_minutes-1.svg\""));
    CHECK(contains(read_bytes(site + "/docs/notebooks/ten_minutes-1.svg"), "</svg>"));
    CHECK(contains(read_bytes(site + "/index.html"), "<msup><mi>C</mi><mi>T</mi></msup>"));
    // Nothing is asked of another host.
    for (const auto& entry : std::filesystem::recursive_directory_iterator(site)) {
        if (entry.path().extension() != ".html") continue;
        const std::string page = read_bytes(entry.path().string());
        INFO(entry.path().string());
        CHECK(!contains(page, "src=\"http"));
        CHECK(!contains(page, "rel=\"stylesheet\" href=\"http"));
    }
}
