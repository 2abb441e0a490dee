#include "core/base/system_file.hpp"

#include <fstream>

#include "core/base/memory.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::testing;

TEST_CASE("Small files of the system give numbers", "[file]") {
    const TemporaryFolder folder;
    const std::string path = folder / "numbers";
    std::ofstream(path) << "MemTotal:       16384 kB\nMemAvailable:   8192 kB\n";
    CHECK(SystemFile(path.c_str()).number("MemAvailable:") == 8192u);
    CHECK(SystemFile(path.c_str()).number("MemTotal:") == 16384u);
    CHECK_FALSE(SystemFile(path.c_str()).number("Swap:"));
    CHECK_FALSE(SystemFile(path.c_str()).number());
    std::ofstream(path) << "765 410 382 5\n";
    CHECK(SystemFile(path.c_str()).number() == 765u);
    CHECK(SystemFile(path.c_str()).number(" ") == 410u);
    std::ofstream(path) << "max\n";
    CHECK_FALSE(SystemFile(path.c_str()).number());
    std::ofstream(path) << "key:";
    CHECK_FALSE(SystemFile(path.c_str()).number("key:"));
    CHECK(SystemFile((folder / "none").c_str()).text().empty());
    CHECK_FALSE(SystemFile("/").number());
    CHECK(SystemFile("/dev/zero").text().size() == 1024);
}

TEST_CASE("Memory that can be had is told on Linux", "[file]") {
    CHECK(memory::available() > 1 << 20);
    CHECK(memory::available() < std::size_t{1} << 60);
    CHECK(memory::available() <= memory::total());
}
