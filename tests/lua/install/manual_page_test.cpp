// The manual page that is installed: made of what the program says of itself.
#include <sstream>
#include <string>

#include "tests/catch.hpp"
#include "tests/lua/program.hpp"

using namespace causeway::testing;

TEST_CASE("the manual page has every option, topic and variable that the program tells of", "[install][lua]") {
    const TemporaryFolder folder;
    const Output made = run_program({source_dir() + "/lua/install/manual_page.lua", program_path(), folder / "page.1"});
    REQUIRE(made.err == "");
    REQUIRE(made.status == 0);
    const std::string page = read_bytes(folder / "page.1");
    CHECK(page.find(".TH CAUSEWAY 1 ") == 0);
    for (const char* entry : {"\\-e CODE", "\\-i FILE.lua [arguments]", "\\-\\-version", "\\-\\-help", "attention",
                              "tensor", "CAUSEWAY_THREADS=n", "XDG_CACHE_HOME", "130"}) {
        INFO(entry);
        CHECK((contains(page, std::string("\\fB") + entry + "\\fR") || contains(page, std::string(".B ") + entry)));
    }
    // Every line of --help that begins an entry stands in the page.
    std::istringstream help(run_program({"--help"}).out);
    for (std::string line; std::getline(help, line);) {
        const std::size_t gap = line.find("  ", 2);
        if (line.compare(0, 2, "  ") != 0 || gap == std::string::npos || line[2] == ' ') continue;
        std::string name = line.substr(2, gap - 2);
        for (std::size_t at = 0; (at = name.find('-', at)) != std::string::npos; at += 2) name.insert(at, 1, '\\');
        INFO(name);
        CHECK(contains(page, "\\fB" + name + "\\fR"));
    }
    // A line that begins like a request of roff is one.
    std::istringstream lines(page);
    for (std::string line; std::getline(lines, line);) {
        INFO(line);
        CHECK((line[0] != '.' || line.compare(0, 3, ".TH") == 0 || line.compare(0, 3, ".SH") == 0 ||
               line.compare(0, 3, ".TP") == 0 || line.compare(0, 3, ".B ") == 0));
        CHECK(line[0] != '\'');
    }
}

TEST_CASE("a manual page of a program that fails is none", "[install][lua]") {
    const TemporaryFolder folder;
    const Output made = run_program({source_dir() + "/lua/install/manual_page.lua", "/bin/false", folder / "page.1"});
    CHECK(made.status == 1);
    CHECK(contains(made.err, "manual_page: /bin/false --help failed"));
}
