// reproduce: the script of a folder of results runs again, and its rows are compared.
#include <filesystem>

#include "tests/catch.hpp"
#include "tests/lua/program.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::contains;
using causeway::testing::read_bytes;
using causeway::testing::run_in;
using causeway::testing::Shell;
using causeway::testing::TemporaryFolder;
using causeway::testing::write_bytes;

TEST_CASE("reproduce runs the script as it was and compares every column", "[lua][reproduce]") {
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder / "scripts");
    write_bytes(folder / "scripts/side.lua", "return {half = 0.5}");
    write_bytes(folder / "scripts/made.lua", R"(
local side = require("side")
local runs = io.open("runs")
local before = sweep{grid = {N = {1}}, save = "results/first", run = function() return 1 end}
local r = sweep{grid = {N = {1, 2, 4}}, save = "results/" .. arg[1], run = function(p)
  if p.N == 4 then return zeros(1 << 24, 1 << 24) end
  return {exact = randn(3):sum() * side.half, time = runs and 3.0 or 1.0, word = runs and "new" or "old", none = 0/0}
end}
io.open("after", "a"):write("x"):close()
)");
    REQUIRE(run_in(folder, {"scripts/made.lua", "made"}).status == 0);
    const std::string rows = read_bytes(folder / "results/made/rows.jsonl");
    const std::string first = read_bytes(folder / "results/first/rows.jsonl");
    write_bytes(folder / "scripts/made.lua", "error('another script by now')");
    write_bytes(folder / "runs", "");

    for (const std::string path : {"results/made", "results/made/", "results/made/rows.jsonl", "results/made-again"}) {
        CAPTURE(path);
        const auto output = run_in(folder, {"-e", "r = reproduce('" + path + "') print(r)"});
        CAPTURE(output.err);
        CHECK(output.status == 0);
        const bool twice = path == "results/made-again";
        CHECK(contains(output.out, "scripts/made.lua again, in " +
                                       std::string(twice ? path + "-again" : path.substr(0, 12) + "-again")));
        CHECK(contains(output.out, " status     3      3"));
        CHECK(contains(output.out, " exact      2      2     0.0e+00  1.000"));
        CHECK(contains(output.out, " none       2      2"));
        CHECK(contains(output.out,
                       twice ? " time       2      2     0.0e+00  1.000" : " time       2      0     6.7e-01  3.000"));
        CHECK(contains(output.out, twice ? " word       2      2" : " word       2      0"));
    }
    CHECK(read_bytes(folder / "results/made/rows.jsonl") == rows);
    CHECK(read_bytes(folder / "results/first/rows.jsonl") == first);
    CHECK(read_bytes(folder / "after") == "x");
}

TEST_CASE("reproduce says in a sentence what it cannot run again", "[lua][reproduce]") {
    Shell lua;
    CHECK(lua("reproduce()") == "user:1: reproduce: path: expected a folder of results, got nothing");
    CHECK(lua("reproduce(dir .. 'none')") ==
          "user:1: reproduce: " + lua.path("none") + " has no rows.jsonl, expected a folder that sweep wrote");
    lua("sweep{grid = {N = {1}}, save = dir .. 'one', run = function() return 1 end}");
    CHECK(
        contains(lua("reproduce(dir .. 'one')"), "one keeps no script to run again: its rows were made at the prompt"));

    const TemporaryFolder folder;
    write_bytes(folder / "made.lua",
                "if io.open('runs') then error('the data are gone') end "
                "sweep{grid = {N = {1}}, save = 'one', run = function() return 1 end}");
    REQUIRE(run_in(folder, {"made.lua"}).status == 0);
    write_bytes(folder / "runs", "");
    CHECK(contains(run_in(folder, {"-e", "reproduce('one')"}).err,
                   "reproduce: made.lua did not run again: made.lua:1: the data are gone"));
    std::filesystem::remove(folder / "one/rows.jsonl");
    write_bytes(folder / "one/rows.jsonl", "");
    CHECK(contains(run_in(folder, {"-e", "reproduce('one')"}).err, "reproduce: one has no row whose origin is known"));
}
