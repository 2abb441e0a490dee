// sweep: order, statuses, what is on the disk, and that a sweep killed at any moment loses and repeats nothing.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <set>

#include "tests/catch.hpp"
#include "tests/limits.hpp"
#include "tests/lua/mpi.hpp"
#include "tests/lua/program.hpp"
#include "tests/lua/pty.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::contains;
using causeway::testing::count;
using causeway::testing::FileSizeLimit;
using causeway::testing::read_bytes;
using causeway::testing::run_program;
using causeway::testing::Shell;
using causeway::testing::start_program;
using causeway::testing::TemporaryFolder;
using causeway::testing::wait_for_file;
using causeway::testing::wait_for_program;
using causeway::testing::write_bytes;

TEST_CASE("a sweep runs every combination, the last name of the order fastest", "[lua][sweep]") {
    Shell lua;
    const std::string run =
        "local seen = {} local r = sweep{grid = {b = {1, 2}, a = {'x', 'y'}}, run = function(p) seen[#seen + 1] = p.a "
        ".. p.b return p.b * 10 end";
    CHECK(lua(run + "} return table.concat(seen, ' '), #r, r[2].a, r[2].b, r[2].value, r[2].status") ==
          "x1 x2 y1 y2 4 x 2 20 ok");
    CHECK(lua(run + ", order = {'b'}} return table.concat(seen, ' ')") == "x1 y1 x2 y2");
}

TEST_CASE("a point out of memory or time is recorded and the sweep goes on", "[lua][sweep]") {
    Shell lua;
    CHECK(lua("local r = sweep{grid = {N = {1, 2, 3, 4}}, timeout = 0.03, run = function(p) "
              "if p.N == 1 then return zeros(1 << 24, 1 << 24) end "
              "if p.N == 2 then while true do end end "
              "if p.N == 3 then return {time = 0.5, good = true, note = 'n'} end return {time = 0/0} end} "
              "return tostring(r)") ==
          " N  good     note        time\n"
          " ────────────────────────────\n"
          " 1  OOM      OOM          OOM\n"
          " 2  timeout  timeout  timeout\n"
          " 3  true     n         0.5000\n"
          " 4                        NaN");
}

TEST_CASE("random numbers are the same at every point", "[lua][sweep]") {
    Shell lua;
    CHECK(lua("local r = sweep{grid = {N = {1, 2}}, seed = 7, run = function() return randn(1):sum() end} seed(7) "
              "local x = randn(1):sum() return r[1].value == x, r[2].value == x") == "true true");
}

TEST_CASE("rows can be chosen, listed and drawn", "[lua][sweep]") {
    Shell lua;
    lua("r = sweep{grid = {N = {2, 4}, m = {'a', 'b'}}, order = {'m'}, run = function(p) if p.m == 'b' and p.N == 4 "
        "then zeros(2^22, 2^22) end return {t = p.N * 1.0} end}");
    CHECK(lua("return #r:where{m = 'a'}, #r:where(function(row) return row.N == 2 end), #r:where()") == "2 2 4");
    CHECK(lua("return table.concat(r:column('t'), ' ')") == "2.0 4.0 2.0");
    CHECK(contains(lua("return r:plot('N', 't', {by = 'm', title = 'T'})"), "● a\n"));
    CHECK(lua("r:plot('N', 't', {group_by = 'm'})") ==
          "user:1: plot: unknown option \"group_by\" (it is called \"by\" here, see ?by)");
    CHECK(lua("r:plot('N', 't', {bye = 'm'})") == "user:1: plot: unknown option \"bye\" (did you mean \"by\"?)");
    CHECK(contains(lua("r:plot('N', 't', {foo = 'm'})"), ", by, error"));
    CHECK(lua("r:plot('N', 'x')") == "user:1: plot: y: no row has \"x\", expected one of m, N, t, status");
    CHECK(lua("r:plot('n', 't')") == "user:1: plot: x: no row has \"n\", expected one of m, N, t, status");
    CHECK(lua("s = sweep{grid = {N = {1, 2}}, run = function(p) return p.N == 1 and {a = 1} or {b = 2} end} "
              "s:plot('a', 'b')") == "user:1: plot: no row has both a and b; the columns are N, a, b, status");
    CHECK(lua("return tostring(r:plot('N', 't', {title = 'T'})) == tostring(r:plot('N', 't', {by = 'm', title = "
              "'T'}))") == "true");
    CHECK(lua("u = sweep{grid = {N = {1, 2}, a = {1, 2}, b = {3, 4}, c = {5}}, run = function(p) return p.N end} "
              "u:plot('N', 'value')") ==
          "user:1: plot: by: nothing, but at one N rows differ in a and b, expected one of them, as in "
          "plot(results:where{b = ...}, \"N\", \"value\", {by = \"a\"})");
    CHECK(contains(lua("return plot(u:where{b = 3}, 'N', 'value', {by = 'a'})"), "● 1\n"));
    CHECK(lua("sweep{N = {1, 2}, run = function() return 1 end}") ==
          "user:1: sweep: unknown option \"N\" (a list of values stands in grid: grid = {N = {...}})");
    CHECK(lua("return r:save(dir .. 'r.csv') == r") == "true");
    CHECK(lua.file("r.csv").starts_with("m,N,t\na,2,2\n"));
}

TEST_CASE("chosen rows are results too", "[lua][sweep]") {
    Shell lua;
    lua("r = sweep{grid = {N = {2, 4, 8}, m = {'a', 'b'}}, order = {'m'}, units = {t = 'seconds'}, run = function(p) "
        "if p.m == 'b' and p.N == 8 then zeros(2^22, 2^22) end return {t = p.N / 1000} end}");
    CHECK(lua("return r:where{m = 'a', N = {2, 8}}") ==
          " m  N  t (ms)\n"
          " ────────────\n"
          " a  2    2.00\n"
          " a  8    8.00");
    CHECK(lua("return r:where{m = 'b'}:where{N = {4, 8, 16}}") ==
          " m  N  t (ms)\n"
          " ────────────\n"
          " b  4    4.00\n"
          " b  8     OOM");
    CHECK(lua("return r:where{N = 4}:pivot('m', 'N', 't'):markdown()") == lua("return r:pivot('m', 'N', 't', {N = "
                                                                              "4}):markdown()"));
    CHECK(lua("return r:where{m = 'a'}:column('t')[3], #r:where{m = 'c'}, #r") == "0.008 0 6");
    CHECK(contains(lua("return r:where{m = 'a'}:plot('N', 't')"), "t (ms)"));
    CHECK(lua("return r:where{m = 'a'}:latex() == r:where(function(row) return row.m == 'a' end):latex()") == "true");
    CHECK(lua("rows = r:where{m = 'a'}; table.sort(rows, function(a, b) return a.N > b.N end) return rows[1].N") ==
          "8");
    // The function of the name is the method, as of tensors.
    CHECK(lua("return #where(r, {N = 4}), where(r, function(row) return row.N == 4 end)[2].m") == "2 b");
    const std::string start = "user:1: where: filter: ";
    CHECK(lua("where(r, 'N', 4096)") ==
          start + "\"N\", expected {name = value} or a function of a row, as in results:where{N = 4096}");
    CHECK(lua("r:where('m', 'a')") ==
          start + "\"m\", expected {name = value} or a function of a row, as in results:where{m = \"a\"}");
    CHECK(lua("r:where(3)") ==
          start + "a number, expected {name = value} or a function of a row, as in results:where{N = 128}");
    CHECK(lua("r.where{N = 4}") ==
          "user:1: where: {N = 4} in the place of the results, expected a colon: results:where{N = 128}");
    CHECK(lua("r:where{n = 4}") == "user:1: filter: no row has \"n\", expected one of m, N, t, status");
}

TEST_CASE("columns that are named, and tables of text_table, have the units of results", "[lua][sweep]") {
    Shell lua;
    lua("r = sweep{grid = {N = {2, 4}}, units = {t = 'seconds'}, run = function(p) return {t = p.N / 1000, s = 1} "
        "end}");
    CHECK(lua("return r:table{columns = {'N', 't'}}") ==
          " N  t (ms)\n"
          " ─────────\n"
          " 2    2.00\n"
          " 4    4.00");
    CHECK(lua("return tostring(text_table(r)) == tostring(r), tostring(text_table(r, {title = 'T'}))") ==
          "true T\n" + lua("return tostring(r)"));
    CHECK(contains(lua("return r:where{N = 3}"), "(no rows)"));
    CHECK(contains(lua("return text_table({}, {columns = {'a'}})"), "(no rows)"));
}

TEST_CASE("a sweep whose run refers to results depends on their rows alone", "[lua][sweep]") {
    Shell lua;
    // The first sweep is of another day each time: its origin differs, its rows do not.
    const std::string first =
        "r = sweep{grid = {N = {2, 4}}, save = dir .. 'first', fresh = true, run = function(p) return "
        "p.N end} r.origins[1].date = tostring(calls) ";
    const std::string second =
        "s = sweep{grid = {k = {1, 2}}, save = dir .. 'second', run = function(p) calls = calls + "
        "1 return rows[p.k].value end} return calls, s[2].value";
    CHECK(lua("calls = 0 " + first + "rows = r:where() " + second) == "2 4");
    CHECK(lua("calls = 10 " + first + "rows = r:where() " + second) == "10 4");
    CHECK(lua("rows = r:where{N = 4} " + second).find("changed: rows") != std::string::npos);
}

TEST_CASE("a wide table has a line and a column for each value of two columns", "[lua][sweep]") {
    Shell lua;
    lua("r = sweep{grid = {N = {2, 4}, m = {'a', 'b'}}, order = {'m'}, units = {t = 'seconds'}, run = function(p) if "
        "p.m == 'b' and p.N == 4 then zeros(2^22, 2^22) end return {t = p.N / 1000, n = p.N} end}");
    CHECK(lua("return r:pivot('m', 'N', 'n'):markdown()") ==
          "**n**\n\n| m | N = 2 | N = 4 |\n| :--- | ---: | ---: |\n| a | 2 | 4 |\n| b | 2 | OOM |\n");
    // One unit and as many decimals for all.
    CHECK(lua("return r:pivot('N', 'm', 't'):markdown()") ==
          "**t (ms)**\n\n| N | m = a | m = b |\n| ---: | ---: | ---: |\n| 2 | 2.00 | 2.00 |\n| 4 | 4.00 | OOM |\n");
    CHECK(lua("return r:pivot('m', 'N', 'n', {N = 2}):markdown():find('N = 4') == nil") == "true");
    CHECK(lua("r:pivot('m', 'status', 'n')") ==
          "user:1: pivot: several rows have m = a and status = ok, expected a filter that leaves one, as in "
          "results:pivot(\"m\", \"status\", \"n\", {seed = 1})");
    CHECK(lua("r:pivot('m', 'N', 'x')") == "user:1: pivot: no row has \"x\", expected one of m, N, n, t, status");
    CHECK(lua("r:pivot('m', 'N')") ==
          "user:1: pivot: expected a colon and three columns: results:pivot(\"method\", "
          "\"rank\", \"error\")");
    CHECK(contains(lua("r:unstack('m')"), "results:pivot("));
    CHECK(contains(lua("r:slope('N', 't')"), "growth_exponent(results:column(\"N\"), results:column(\"time\"))"));
}

TEST_CASE("what others call a method of results is told what it is here", "[lua][sweep]") {
    Shell lua;
    lua("r = sweep{grid = {N = {2, 4}}, run = function(p) return {time = p.N * 1.0} end}");
    CHECK(lua("r:filter{N = 2}").starts_with("user:1: results have no \"filter\": results:where{N = 128} or "));
    CHECK(contains(lua("return r.to_csv"), "results:save(\"results.csv\")"));
    CHECK(contains(lua("r:groupby('N')"), "{by = \"method\"}"));
    CHECK(lua("return r.time") ==
          "user:1: results have no \"time\" of their own: results:column(\"time\") is the list of that column, "
          "results[1].time that of the first row");
    CHECK(lua("r.plot('N', 'time')") ==
          "user:1: plot: \"N\" in the place of the results, expected a colon: results:plot(\"N\", \"time\")");
    CHECK(contains(lua("plot(r)"), "y: nothing, expected the name of a column, as in results:plot(\"N\", \"time\")"));
    CHECK(lua("return r.folder, r[3]") == "nil nil");
    CHECK(lua("return r.no_such_name").find("a table of results has no \"no_such_name\": it has columns, ") !=
          std::string::npos);
}

TEST_CASE("seconds and bytes of a sweep have one unit a column and an axis", "[lua][sweep]") {
    Shell lua;
    const std::string run =
        "run = function(p) return {time = p.N * 2e-5, memory = p.N * 1024, seconds = p.N * 1e-3} end}";
    lua("r = sweep{grid = {N = {1, 4, 16}}, units = {time = 'seconds', memory = 'bytes'}, " + run);
    CHECK(lua("return r") ==
          "  N  memory (KiB)  seconds (ms)  time (µs)\n"
          " ─────────────────────────────────────────\n"
          "  1          1.00          1.00       20.0\n"
          "  4          4.00          4.00       80.0\n"
          " 16         16.00         16.00      320.0");
    CHECK(contains(lua("return r:plot('N', 'time')"), "time (µs)"));
    CHECK(contains(lua("return r:plot('N', 'seconds')"), "time (ms)"));
    lua("r = sweep{grid = {N = {1, 4}}, units = {time = 'ticks'}, " + run);
    CHECK(contains(lua("return r"), "time (ticks)"));
    CHECK(contains(lua("return r:plot('N', 'time')"), "time (ticks)"));
    CHECK(lua("sweep{grid = {N = {1}}, units = 'seconds', " + run) ==
          "user:1: sweep: units: expected a table of columns and their units, such as {time = \"seconds\"}, got a "
          "string");
}

TEST_CASE("numbers of a column that is partly very small all have an exponent", "[lua][sweep]") {
    Shell lua;
    CHECK(lua("return sweep{grid = {N = {1, 2, 3}}, run = function(p) return ({6.933e-5, 0.001246, 0})[p.N] end}") ==
          " N     value\n"
          " ───────────\n"
          " 1  6.933e-5\n"
          " 2  1.246e-3\n"
          " 3         0");
}

TEST_CASE("what sweep does not understand is told in a sentence", "[lua][sweep]") {
    Shell lua;
    CHECK(lua("sweep()") ==
          "user:1: sweep: expected a table {grid = ..., run = ...}, as in sweep{grid = {N = {128, 256}}, run = f}, got "
          "nothing");
    CHECK(contains(lua("sweep({128, 256}, function(N) return N end)"), "run = f}, got a list"));
    CHECK(lua("sweep{run = print}") ==
          "user:1: sweep: grid: expected a table of lists such as {N = {128, 256}}, got nothing");
    CHECK(lua("sweep{grid = {N = {1}}}") == "user:1: sweep: run: expected a function of a point, got nothing");
    CHECK(lua("sweep{grid = {s = {'a', '\\xFF'}}, run = print}") ==
          "user:1: sweep: grid.s: item 2 is \"\\xff\", expected UTF-8");
    CHECK(lua("sweep{grid = {N = {1}}, run = function() return {['\\xFF'] = 1} end}") ==
          "user:1: sweep: run returned a value under the name \"\\xff\", expected UTF-8");
    CHECK(lua("sweep{grid = {N = 3}, run = print}") ==
          "user:1: sweep: grid.N: expected a list of values, got a number");
    CHECK(
        lua("sweep{grid = {N = range(1, 3)}, run = print}") ==
        "user:1: sweep: grid.N: expected a list of values, got a 3-element Tensor{Float32}, whose list is A:totable()");
    CHECK(lua("sweep{grid = {N = 10, 20}, run = print}") ==
          "user:1: sweep: grid: 20 without a name, expected names with lists: grid = {N = {128, 256}}");
    CHECK(lua("sweep{grid = {N = {1}, m = {2}}, run = function(N, m) return N end}") ==
          "user:1: sweep: run: a function of 2 values, expected one of a point: run = function(p) return p.N end");
    CHECK(lua("causeway._note = function(text) noted = text end return #sweep{grid = {N = {}}, run = print}, noted") ==
          "0 sweep: grid.N has no values, so there is nothing to run");
    CHECK(lua("sweep{grid = {N = {1, 1.0}}, run = print}") == "user:1: sweep: grid.N: 1 appears twice");
    CHECK(lua("sweep{grid = {N = {0/0}}, run = print}").find("user:1: sweep: grid.N: item 1 is ") == 0);
    CHECK(lua("sweep{grid = {N = {1}}, order = {'M'}, run = print}") ==
          "user:1: sweep: order: item 1 is \"M\", which is not in the grid");
    CHECK(lua("sweep{grid = {N = {1}}, run = function() end}") ==
          "user:1: sweep: run returned nothing at N = 1, expected a number or a table of results");
    CHECK(lua("sweep{grid = {N = {1}}, run = function() return ones(2, 3) end}") ==
          "user:1: sweep: run returned a 2×3 Tensor{Float32} at N = 1, expected a number or a table of results");
    CHECK(lua("sweep{grid = {N = {1}}, run = function() return {N = 2} end}") ==
          "user:1: sweep: run returned \"N\", which is already the name of a column");
    CHECK(lua("sweep{grid = {status = {1}}, run = print}") ==
          "user:1: sweep: grid.status: the name of a column that every row has, expected another");
    CHECK(lua("sweep{grid = {value = {1}}, run = function() return 2 end}") ==
          "user:1: sweep: run returned a number at value = 1, whose column \"value\" is a parameter's: return it under "
          "a name of its own");
    lua("r = sweep{grid = {N = {1, 2}}, run = function(p) return {y = p.N} end}");
    CHECK(lua("r:column('z')") == "user:1: column: no row has \"z\", expected one of N, y, status");
    CHECK(lua("r:column('y', {M = 2})") == "user:1: filter: no row has \"M\", expected one of N, y, status");
    CHECK(lua("r:table{columns = {'zz'}}") ==
          "user:1: table: columns: no row has \"zz\", expected one of N, y, status");
    CHECK(lua("r:plot('N', 'y', {by = 'q'})") == "user:1: plot: by: no row has \"q\", expected one of N, y, status");
    CHECK(lua("sweep{grid = {N = {1}}, rum = 1}") == "user:1: sweep: unknown option \"rum\" (did you mean \"run\"?)");
    CHECK(lua("sweep{grid = {N = {1}}, run = function() error('boo') end}") == "user:1: boo (sweep at N = 1)");
}

TEST_CASE("finished rows are on the disk, with their origin", "[lua][sweep]") {
    Shell lua;
    lua("calls = 0 function go(more) local o = {grid = {N = {1, 2, 3}}, save = dir .. 'one/', run = function(p) calls "
        "= calls + 1 if p.N == 3 and io.open(dir .. 'stop') then error('stop', 0) end return {x = p.N / 4, y = 0/0} "
        "end} "
        "for k, v in pairs(more or {}) do o[k] = v end local r = sweep(o) return r end io.open(dir .. 'stop', "
        "'w'):close()");
    CHECK(lua("go()") == "stop (sweep at N = 3)");
    CHECK(count(lua.file("one/rows.jsonl"), "\"point\"") == 2);
    CHECK_FALSE(std::filesystem::exists(lua.path("one/one.csv")));

    CHECK(lua("os.remove(dir .. 'stop') calls = 0 local r = go() return calls, #r, r[1].x, r[1].y ~= r[1].y") ==
          "1 3 0.25 true");
    CHECK(lua.file("one/one.csv") == "N,x,y,status,origin\n1,0.25,NaN,ok,1\n2,0.5,NaN,ok,1\n3,0.75,NaN,ok,1\n");
    CHECK(lua("local j = causeway.json_decode(io.open(dir .. 'one/one.json'):read('a')) return j.origins[1].processor "
              "== machine().processor, j.origins[1].causeway == machine().causeway, j.seed, #j.rows") ==
          "true true 1 3");

    SECTION("a finished sweep runs nothing") { CHECK(lua("calls = 0 go() return calls") == "0"); }
    SECTION("a changed grid keeps the rows still in it") {
        CHECK(lua("calls = 0 local r = go{grid = {N = {3, 4}}} return calls, #r, r[1].x") == "1 2 0.75");
        CHECK(lua("calls = 0 local r = go{grid = {N = {1, 2, 3, 4}}} return calls, #r") == "0 4");
    }
    SECTION("another seed is refused") {
        CHECK(contains(
            lua("go{seed = 2}"),
            "holds rows made with seed 1, not 2; use that seed, another name, or fresh = true to start again"));
        CHECK(lua("calls = 0 go{seed = 2, fresh = true} return calls") == "3");
    }
    SECTION("rows of another machine are kept and named") {
        std::string rows = lua.file("one/rows.jsonl");
        const std::string here = "\"causeway\"";
        rows.replace(rows.find(here), here.size(), "\"version\"");
        write_bytes(lua.path("one/rows.jsonl"), rows);
        CHECK(lua("local r = go{grid = {N = {1, 4}}} return r[1].origin, r[2].origin, #r.origins") == "1 2 2");
    }
    SECTION("a torn last line is dropped") {
        const std::string rows = lua.file("one/rows.jsonl");
        for (const std::size_t cut : {1, 2, 20, 60}) {
            write_bytes(lua.path("one/rows.jsonl"), rows.substr(0, rows.size() - cut));
            CAPTURE(cut);
            CHECK(lua("calls = 0 local r = go() return calls, #r, r[3].x") == "1 3 0.75");
            CHECK(count(lua.file("one/rows.jsonl"), "\"point\"") == 3);
        }
        write_bytes(lua.path("one/rows.jsonl"), rows + std::string("{\"po\0\0\0", 8));
        CHECK(lua("calls = 0 local r = go() return calls, #r") == "0 3");
        CHECK(lua.file("one/rows.jsonl") == rows);
    }
    SECTION("a damaged line in the middle is an error that names it") {
        std::string rows = lua.file("one/rows.jsonl");
        rows[rows.find("{", 3)] = '#';
        write_bytes(lua.path("one/rows.jsonl"), rows);
        CHECK(contains(lua("go()"),
                       "one/rows.jsonl, line 1 is not a row; repair the file or start again with fresh = true"));
    }
    SECTION("the line is named that came between this process's own") {
        CHECK(contains(
            lua("sweep{grid = {N = {1, 2, 3, 4}}, save = dir .. 'two', run = function(p) if p.N == 3 then "
                "local f <close> = io.open(dir .. 'two/rows.jsonl', 'a') f:write('junk\\n') end return p.N end}"),
            "two/rows.jsonl, line 4 is not a row"));
    }
    SECTION("so is one that is no row and no origin") {
        const std::string rows = lua.file("one/rows.jsonl");
        for (const std::string line : {"{\"id\": 1, \"origin\": 5}", "{\"point\": {\"N\": 1}}", "{\"point\": 1}",
                                       "{\"id\": 1, \"run_data\": \"a\"}", "7"}) {
            CAPTURE(line);
            write_bytes(lua.path("one/rows.jsonl"), rows + line + "\n" + rows);
            CHECK(contains(lua("go()"), "one/rows.jsonl, line 5 is not a row; repair the file"));
        }
    }
}

TEST_CASE("a sweep killed at random moments loses and repeats no finished row", "[lua][sweep]") {
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    const TemporaryFolder folder;
    // Each run of a point leaves a line in runs; a point may run twice only when it was killed before its row was
    // written.
    write_bytes(folder / "sweep.lua", R"(
local runs = io.open("runs", "a")
sweep{grid = {N = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, method = {"a", "b", "c"}}, save = "results/killed", run = function(p)
  runs:write(p.N, p.method, "\n"); runs:flush()
  local stop = clock() + 2e-3
  while clock() < stop do end
  return {value = randn(3):sum() + p.N, text = p.method:rep(p.N)}
end}
)");
    int kills = 0;
    std::string before;
    for (bool complete = false; !complete;) {
        const pid_t child = start_program(folder, {"sweep.lua"});
        // Longer and longer, so that a slow start (sanitizers, a loaded machine) does not keep every run from getting
        // on.
        ::usleep(
            std::uniform_int_distribution<useconds_t>(5000, 120000 + 4000 * static_cast<useconds_t>(kills))(random));
        ::kill(child, SIGKILL);
        complete = wait_for_program(folder, child).status == 0;
        kills += !complete;
        REQUIRE(kills < 500);
        // What was finished before stays as it was.
        const std::string path = folder / "results/killed/rows.jsonl";
        const std::string now = std::filesystem::exists(path) ? read_bytes(path) : "";
        const std::string finished = before.substr(0, before.rfind('\n') + 1);
        REQUIRE(now.substr(0, finished.size()) == finished);
        before = now;
    }
    CHECK(count(before, "\"point\"") == 30);
    const std::string runs = read_bytes(folder / "runs");
    CHECK(count(runs, "\n") >= 30);
    CHECK(count(runs, "\n") <= 30 + kills);

    const std::string interrupted = read_bytes(folder / "results/killed/killed.csv");
    std::filesystem::remove_all(folder / "results");
    const pid_t child = start_program(folder, {"sweep.lua"});
    REQUIRE(wait_for_program(folder, child).status == 0);
    CHECK(read_bytes(folder / "results/killed/killed.csv") == interrupted);
    CHECK(count(interrupted, ",ok,1\n") == 30);
}

TEST_CASE("an error outside run leaves nothing locked, and a row that cannot be written leaves the journal as it was",
          "[lua][sweep]") {
    Shell lua;
    lua("calls = 0 function go() return #sweep{grid = {N = {1, 2}}, save = dir .. 'one', run = function(p) calls = "
        "calls + 1 if p.N == 2 and limit then limit() end return {text = ('x'):rep(3000)} end} end");
    std::filesystem::create_directories(lua.path("one/one.csv"));
    CHECK(contains(lua("go()"), "one/one.csv: cannot be written: it is a directory"));
    std::filesystem::remove(lua.path("one/one.csv"));
    CHECK(lua("return go(), calls") == "2 2");

    const std::string rows = lua.file("one/rows.jsonl");
    write_bytes(lua.path("one/rows.jsonl"), rows.substr(0, rows.rfind("{\"origin\"")));
    const std::string before = lua.file("one/rows.jsonl");
    {
        const FileSizeLimit limit(before.size() + 1000);
        CHECK(contains(lua("go()"), "one/rows.jsonl: cannot be written: File too large"));
    }
    CHECK(lua.file("one/rows.jsonl") == before);
    CHECK(lua("return go(), calls") == "2 4");
}

TEST_CASE("a file beyond the limit of its size ends a program with a sentence", "[lua][sweep]") {
    const TemporaryFolder folder;
    write_bytes(folder / "sweep.lua",
                "sweep{grid = {N = {1}}, save = 'one', run = function() return {text = ('x'):rep(1e5)} end}");
    const std::string command = "cd '" + folder.path() + "' && ulimit -f 16 && '" + tests::program_path() +
                                "' sweep.lua > out 2> err < /dev/null";
    CHECK(causeway::testing::shell_status(std::system(command.c_str())) == 1);
    CHECK(contains(read_bytes(folder / "err"), "one/rows.jsonl: cannot be written: File too large"));
}

TEST_CASE("a journal that is no file of rows is told before a point runs", "[lua][sweep]") {
    Shell lua;
    lua("calls = 0 function go() return #sweep{grid = {N = {1, 2}}, save = dir .. 'one', run = function(p) calls = "
        "calls + 1 return p.N end} end go() calls = 0");
    const std::string path = lua.path("one/rows.jsonl");
    const std::string good = read_bytes(path);
    const auto fault = [&] {
        const std::string told = lua("return go()");
        CHECK(lua("return calls") == "0");
        return told;
    };
    SECTION("a damaged line, wherever it is") {
        for (const std::string line :
             {R"({"point": 5})",
              R"({"origin": 5})",
              R"({"point": {"N": 3}, "status": "ok", "seconds": 1})",
              R"({"point": {"N": 3}, "status": "ok", "values": 5, "seconds": 1})",
              R"({"point": {"N": 3}, "values": {}, "seconds": 1})",
              R"({"point": {"N": 3}, "status": "ok", "values": {}, "seconds": -1})",
              R"({"point": {}, "status": "ok", "values": {}, "seconds": 1})",
              R"({"point": [1], "status": "ok", "values": {}, "seconds": 1})",
              R"({"point": {"N": 3}, "status": "ok", "values": [1], "seconds": 1})",
              R"({"point": {"N": 3}, "status": "ok", "values": {"x": {}}, "seconds": 1})",
              R"({"point": {"N": 3}, "status": "ok", "values": {"N": 1}, "seconds": 1})",
              R"({"point": {"N": 3}, "status": "ok", "values": {"status": 1}, "seconds": 1})",
              R"({"point": {"N": 3}, "status": "ok", "values": {"x": 1}})",
              R"({"point": {"N": 3}, "status": "ok", "values": {"x": 1}, "seconds": "x"})",
              R"({"point": {"N": 3}, "status": "weird", "values": {}, "seconds": 1})",
              R"({"point": {"N": 3}, "status": "ok", "values": {"x": 1}, "seconds": 1, "origin": "a"})",
              R"({"point": {"N": 3}, "status": "ok", "values": {}, "seconds": 1, "origin": 5})",
              R"({"id": 1, "origin": {}})",
              R"({"id": 3, "origin": {}})",
              R"({"id": 2, "origin": {"run": 5}})",
              R"({"id": 2, "origin": {"run": {"f": 5}}})",
              R"({"id": 1, "run_data": {"a": 5}})",
              R"({"id": 5, "run_data": {"a": "b"}})",
              R"({"started": 5})",
              "{}",
              "[]",
              "5",
              "",
              "#"}) {
            CAPTURE(line);
            write_bytes(path, good + line + "\n");
            CHECK(fault() ==
                  "user:1: sweep: " + path + ", line 4 is not a row; repair the file or start again with fresh = true");
            write_bytes(path, good.substr(0, good.find('\n') + 1) + line + "\n" + good);
            CHECK(contains(fault(), ", line 2 is not a row;"));
        }
        CHECK(contains(lua("causeway._read_journal(dir .. 'one/rows.jsonl')"), "rows.jsonl, line 2 is not a row"));
    }
    SECTION("a pipe, a device, a folder") {
        std::filesystem::remove(path);
        REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
        CHECK(fault() == "user:1: " + path + ": is a pipe, expected a regular file");
        CHECK(contains(lua("reproduce(dir .. 'one')"), "has no rows.jsonl, expected a folder that sweep wrote"));
        std::filesystem::remove(path);
        std::filesystem::create_symlink("/dev/zero", path);
        CHECK(fault() == "user:1: " + path + ": is a device, expected a regular file");
        std::filesystem::remove(path);
        std::filesystem::create_directory(path);
        CHECK(fault() == "user:1: " + path + ": cannot be written: Is a directory");
    }
    SECTION("50 GB, and a line without an end") {
        std::filesystem::resize_file(path, std::uintmax_t{50} << 30);
        CHECK(fault() ==
              "user:1: " + path + ": has 53687091200 bytes, expected the rows of a sweep, at most 4294967296");
        std::filesystem::resize_file(path, std::uintmax_t{1} << 30);
        CHECK(fault() == "user:1: " + path + ", line 4 has more than 67108864 bytes and is not a row");
    }
    SECTION("a last line that a crash of the machine filled with zeros is torn") {
        write_bytes(path, good + std::string(20, '\0') + "}\n");
        CHECK(lua("return go(), calls") == "2 0");
        CHECK(lua("return #sweep{grid = {N = {1, 2, 3}}, save = dir .. 'one', run = function(p) calls = calls + 1 "
                  "return p.N end}") == "3");
        CHECK(lua.file("one/rows.jsonl").substr(0, good.size()) == good);
        CHECK(lua.file("one/rows.jsonl").find('\0') == std::string::npos);
    }
}

TEST_CASE("a journal that is deleted, replaced or cut while a sweep writes it is noticed", "[lua][sweep]") {
    Shell lua;
    lua("function go(at_two) return #sweep{grid = {N = {1, 2, 3}}, save = dir .. 'one', fresh = true, run = "
        "function(p) "
        "if p.N == 2 then at_two(dir .. 'one/rows.jsonl') end last = p.N return p.N end} end");
    CHECK(contains(lua("go(os.remove)"), "one/rows.jsonl: was deleted or moved while a sweep writes it: No such file"));
    CHECK(lua("return last") == "2");
    CHECK(contains(lua("go(function(path) save(dir .. 'a.json', 1) os.rename(dir .. 'a.json', path) end)"),
                   "one/rows.jsonl: was replaced by another file while a sweep writes it"));
    CHECK(lua("return last") == "2");
    CHECK(contains(lua("go(function(path) io.open(path, 'w'):close() end)"), "one/rows.jsonl: was cut from "));
    CHECK(lua("return last") == "2");
    CHECK(lua("return go(type)") == "3");
}

TEST_CASE("what a killed writer of results left is swept up by the next run", "[lua][sweep]") {
    Shell lua;
    const std::string go = "return #sweep{grid = {N = {1}}, save = dir .. 'one/', run = function(p) return p.N end}";
    CHECK(lua(go) == "1");
    for (const char* name : {"one.csv.part-12-0", "one.json.part-12-1", "two.csv.part-12-0", "one.csv.part-a"})
        write_bytes(lua.path(std::string("one/") + name), "x");
    CHECK(lua(go) == "1");
    CHECK_FALSE(std::filesystem::exists(lua.path("one/one.csv.part-12-0")));
    CHECK_FALSE(std::filesystem::exists(lua.path("one/one.json.part-12-1")));
    CHECK(std::filesystem::exists(lua.path("one/two.csv.part-12-0")));
    CHECK(std::filesystem::exists(lua.path("one/one.csv.part-a")));
}

namespace {

// A process that runs a sweep in a folder which others share, from a folder of its own.
struct Sharer {
    explicit Sharer(const std::string& script) {
        write_bytes(folder / "sweep.lua", script);
        process = start_program(folder, {"sweep.lua"});
    }
    causeway::testing::Output wait() { return wait_for_program(folder, process); }

    TemporaryFolder folder;
    pid_t process;
};

// Every point once: its line in the journal, its row in the table.
void check_rows(const std::string& folder, int points, int origins = 1) {
    const std::string journal = read_bytes(folder + "/rows.jsonl");
    CHECK(count(journal, "\"point\"") == points);
    std::set<std::string> seen;
    for (std::size_t at = 0; (at = journal.find("\"point\"", at)) != std::string::npos; ++at)
        seen.insert(journal.substr(at, journal.find('}', at) - at));
    CHECK(seen.size() == static_cast<std::size_t>(points));
    CHECK(count(journal, "\"date\"") == origins);  // the same program on the same machine is one
}

}  // namespace

TEST_CASE("three processes share the points of a folder, whichever of them are killed", "[lua][sweep]") {
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 6; ++round) {
        CAPTURE(round);
        const TemporaryFolder shared;
        const std::string script = "runs = io.open('" + shared / "runs" + R"(', "a")
local r = sweep{grid = {N = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, method = {"a", "b", "c"}}, save = ")" +
                                   shared / "one" + R"(", run = function(p)
  runs:write(p.N, p.method, "\n") runs:flush()
  local stop = clock() + 3e-3
  while clock() < stop do end
  return {value = randn(3):sum() + p.N, text = p.method:rep(p.N)}
end}
print(r:table():csv()))";
        std::vector<std::unique_ptr<Sharer>> sharers;
        for (int i = 0; i < 3; ++i) sharers.push_back(std::make_unique<Sharer>(script));
        const int kills = 1 + round % 2;
        for (int i = 0; i < kills; ++i) {
            ::usleep(std::uniform_int_distribution<useconds_t>(1000, 100000)(random));
            ::kill(sharers[static_cast<std::size_t>(i)]->process, SIGKILL);
        }
        std::string shown;
        for (std::size_t i = 0; i < sharers.size(); ++i) {
            const auto output = sharers[i]->wait();
            if (i < static_cast<std::size_t>(kills) && output.status != 0) continue;
            CAPTURE(output.err);
            CHECK(output.status == 0);
            if (shown.empty()) shown = output.out;
            CHECK(output.out == shown);
        }
        check_rows(shared / "one", 30);
        const int runs = count(read_bytes(shared / "runs"), "\n");
        CHECK(runs >= 30);
        CHECK(runs <= 30 + kills);
        const std::string table = read_bytes(shared / "one/one.csv");
        CHECK(count(table, ",ok,1\n") == 30);
        // Alone it comes out the same.
        const std::string rows = read_bytes(shared / "one/rows.jsonl");
        CHECK(Sharer(script).wait().out == shown);
        CHECK(read_bytes(shared / "one/rows.jsonl") == rows);
    }
}

TEST_CASE("a point of a killed process is taken over, and its folder is not emptied meanwhile", "[lua][sweep]") {
    const TemporaryFolder shared;
    const auto script = [&](const std::string& run, const std::string& more = "") {
        return "dir = '" + shared / "" + R"('
function there(name) local file = io.open(dir .. name) if file then file:close() return true end end
function mark(name) io.open(dir .. name, "w"):close() end
local r = sweep{grid = {N = {1, 2, 3}}, save = dir .. "one", run = function(p) )" +
               run + " end" + more + "} print(r[1].value, r[2].value, r[3].value)";
    };
    const std::string run =
        "if p.N == 1 and not there('held') then mark('held') while true do end end "
        "if p.N == 3 then mark('last') end return p.N * 10";
    Sharer stuck(script(run));
    REQUIRE(wait_for_file(shared / "held"));
    const auto refused = Sharer(script(run, ", fresh = true")).wait();
    CHECK(contains(refused.err, "one is in use by another process, and fresh = true would take its rows away"));
    Sharer other(script(run));
    REQUIRE(wait_for_file(shared / "last"));  // it has gone past the first point
    ::kill(stuck.process, SIGKILL);
    stuck.wait();
    CHECK(other.wait().out == "10\t20\t30\n");
    check_rows(shared / "one", 3);
}

TEST_CASE("rows that another process brings from a changed run stop the sweep", "[lua][sweep]") {
    const TemporaryFolder shared;
    const auto script = [&](const std::string& result) {
        return "dir = '" + shared / "" + R"('
function there(name) local file = io.open(dir .. name) if file then file:close() return true end end
sweep{grid = {N = {1, 2}}, save = dir .. "one", run = function(p)
  if p.N == 1 and not there("begun") then
    io.open(dir .. "begun", "w"):close()
    while not there("go") do end
  end
  return )" + result +
               " end}";
    };
    Sharer first(script("p.N"));
    REQUIRE(wait_for_file(shared / "begun"));
    Sharer changed(script("p.N + 1"));  // runs the second point, then waits for the first
    while (!contains(read_bytes(shared / "one/rows.jsonl"), "\"point\"")) ::usleep(1000);
    write_bytes(shared / "go", "");
    CHECK(contains(first.wait().err, "holds rows of another run function (changed: the function)"));
    CHECK(changed.wait().status == 0);
    check_rows(shared / "one", 2, 2);
}

TEST_CASE("after Ctrl-C at the prompt a sweep goes on in its folder", "[lua][sweep]") {
    const TemporaryFolder home;
    causeway::testing::Terminal terminal(home.path(), {}, {"NO_COLOR=1"});
    terminal.wait_for_prompt();
    terminal.answer(
        "function go() return #sweep{grid = {N = {1, 2}}, save = 'one', run = function(p) if p.N == 2 and not "
        "io.open('go') then io.open('reached', 'w'):close() while true do end end return p.N end} end");
    terminal.enter("go()");
    REQUIRE(wait_for_file(home / "reached"));
    terminal.type("\x03");
    terminal.wait_for("interrupted\n");
    terminal.wait_for_prompt();
    write_bytes(home / "go", "");
    CHECK(contains(terminal.answer("go()"), "2\n"));
    check_rows(home / "one", 2);
    terminal.type("\x04");
    CHECK(terminal.wait_for_end() == 0);
}

TEST_CASE("a sweep inside a sweep of the same folder does not wait for itself", "[lua][sweep]") {
    Shell lua;
    CHECK(contains(lua("local function go() return sweep{grid = {N = {1}}, save = dir .. 'one', run = go} end go = nil "
                       "local function inner() return #sweep{grid = {N = {1}}, save = dir .. 'one', run = print} end "
                       "sweep{grid = {N = {1}}, save = dir .. 'one', run = inner}"),
                   "one/rows.jsonl: a sweep of this program writes it already"));
    CHECK(lua("return sweep{grid = {N = {1}}, save = dir .. 'one', run = function() return #sweep{grid = {N = {1, 2}}, "
              "save = dir .. 'two', run = function(p) return p.N end} end}[1].value") == "2");
}

TEST_CASE("the ranks of MPI share the points of a sweep, fresh or not", "[lua][sweep][mpi]") {
    if (causeway::testing::no_mpi()) return;
    const TemporaryFolder folder;
    const auto output = causeway::testing::run_mpi_script(3, R"(
local function there(name) local file = io.open(name) if file then file:close() return true end end
local function go(name, fresh)
  return sweep{grid = {N = {1, 2, 3, 4, 5, 6, 7}}, save = "one", fresh = fresh, run = function(p)
    -- The first point of each waits for those of the others.
    local mine = name .. mpi_rank()
    if not there(mine) then
      io.open(mine, "w"):close()
      for rank = 0, mpi_size() - 1 do while not there(name .. rank) do end end
    end
    local file = io.open(name .. "-runs", "a")
    file:write(p.N, "\n")
    file:close()
    return {rank = mpi_rank()}
  end}
end
for _, name in ipairs{"first", "again"} do
  local results = go(name, true)
  local file = io.open(name .. "-result" .. mpi_rank(), "w")
  file:write(results:table():csv())
  file:close()
end
assert(#go("again") == 7)
if mpi_rank() == 0 then print("done") end
)",
                                                          folder);
    CAPTURE(output.err);
    CHECK(output.status == 0);
    CHECK(output.out == "done\n");
    check_rows(folder / "one", 7);
    for (const std::string name : {"first", "again"}) {
        CAPTURE(name);
        CHECK(count(read_bytes(folder / (name + "-runs")), "\n") == 7);
        const std::string result = read_bytes(folder / (name + "-result0"));
        CHECK(count(result, "\n") == 8);
        for (const char* rank : {",0\n", ",1\n", ",2\n"}) CHECK(contains(result, rank));
        for (const char* rank : {"1", "2"}) CHECK(read_bytes(folder / (name + "-result" + rank)) == result);
    }
}

TEST_CASE("Ctrl-C stops a sweep and keeps its finished rows", "[lua][sweep]") {
    const TemporaryFolder folder;
    write_bytes(folder / "sweep.lua", R"(
sweep{grid = {N = {1, 2, 3}}, save = "one", run = function(p)
  if p.N == 3 then io.open("reached", "w"):close() while true do end end
  return p.N
end}
)");
    const pid_t child = start_program(folder, {"sweep.lua"});
    CHECK(wait_for_file(folder / "reached"));
    ::kill(child, SIGINT);
    const auto output = wait_for_program(folder, child);
    CHECK(output.status != 0);
    CHECK(contains(output.err, "interrupted"));
    CHECK(count(read_bytes(folder / "one/rows.jsonl"), "\"point\"") == 2);
}

namespace {

// A sweep in the file sweep.lua, run in a program of its own; `refused` is the end of its sentence where it is.
class Script {
public:
    explicit Script(std::string text) : text_(std::move(text)) {}

    std::string run(const std::vector<std::string>& arguments = {}) {
        write_bytes(folder / "sweep.lua", text_);
        std::vector<std::string> words{"sweep.lua"};
        words.insert(words.end(), arguments.begin(), arguments.end());
        const auto output = causeway::testing::run_in(folder, words);
        if (output.status == 0) return output.out;
        return output.err.substr(0, output.err.find('\n'));
    }
    void replace(const std::string& before, const std::string& after) {
        REQUIRE(contains(text_, before));
        text_.replace(text_.find(before), before.size(), after);
    }

    const TemporaryFolder folder;

private:
    std::string text_;
};

// Everything that `run` may refer to: a local, a field of a table beside others, a tensor, functions, a global, a
// library function under another name, a file, and a cache that it fills itself.
constexpr const char* whole = R"(
local points = 0
local scale, options = 3, {factor = 2, other = 1}
local weights = {inner = {ones(2)}}
function helper(x) return x + 1 end
local function outer(x) return helper(x) * options.factor end
local cache
local chosen = math.max
local self_made = {}
self_made.self = self_made
local results = sweep{grid = {N = {1, 2}}, save = "one", run = function(p)
  -- a comment
  points = points + 1
  cache = cache or load("data.csv")
  local sums = weights.inner[1]:sum() + (self_made.self == self_made and 0 or 1)
  return scale * p.N + outer(p.N) + sums + cache[1].x + chosen(0, -1)
end}
print(points, results[1].value)
)";

}  // namespace

TEST_CASE("rows of the same run are kept in another process, and where only the text around it changes",
          "[lua][sweep]") {
    Script script(whole);
    write_bytes(script.folder / "data.csv", "x\n5\n");
    CHECK(script.run() == "2\t14.0\n");
    CHECK(script.run() == "0\t14.0\n");
    script.replace("-- a comment", "-- another one,\n  -- of two lines");
    script.replace("local points = 0", "local before, too = 7, 8\nprint(before + too)\nlocal points = 0");
    script.replace("other = 1", "other = 2, more = {}");
    script.replace("scale, options", "size, options");
    script.replace("scale * p.N", "size * p.N");
    CHECK(contains(script.run(), "changed: scale, size"));
    script.replace("size, options", "scale, options");
    script.replace("size * p.N", "scale * p.N");
    CHECK(script.run() == "15\n0\t14.0\n");
    script.replace("{1, 2}}", "{1, 2, 3}}");
    CHECK(script.run() == "15\n1\t14.0\n");
}

TEST_CASE("rows of another run are refused by a sentence that names what changed", "[lua][sweep]") {
    Script script(whole);
    write_bytes(script.folder / "data.csv", "x\n5\n");
    CHECK(script.run() == "2\t14.0\n");
    const auto refused = [&](const std::string& before, const std::string& after) {
        Script other = Script(whole);
        other.replace(before, after);
        std::filesystem::copy(script.folder / "one", other.folder / "one");
        write_bytes(other.folder / "data.csv", "x\n5\n");
        return other.run();
    };
    const auto sentence = [](const std::string& names) {
        return "error: sweep.lua:11: sweep: one holds rows of another run function (changed: " + names +
               "); use another name, or fresh = true to start again";
    };
    CHECK(refused("return scale * p.N", "return scale / p.N") == sentence("the function"));
    CHECK(refused("chosen(0, -1)", "chosen(0, -2)") == sentence("the function"));
    CHECK(refused("options = 3,", "options = 4,") == sentence("scale"));
    CHECK(refused("options = 3,", "options = 3.0,") == sentence("scale"));
    CHECK(refused("ones(2)", "ones(3)") == sentence("weights.inner"));
    CHECK(refused("ones(2)", "zeros(2)") == sentence("weights.inner"));
    CHECK(refused("ones(2)", "f64(ones(2))") == sentence("weights.inner"));
    CHECK(refused("x + 1", "x + 2") == sentence("outer"));
    CHECK(refused("factor = 2", "factor = 3") == sentence("outer"));
    CHECK(refused("math.max", "math.min") == sentence("chosen"));
    CHECK(refused("self_made.self = self_made", "self_made.self = {self_made}") == sentence("self_made"));

    SECTION("data that run loads") {
        write_bytes(script.folder / "data.csv", "x\n6\n");
        CHECK(
            script.run() ==
            "error: sweep.lua:11: sweep: one holds rows for which run loaded data.csv, which has changed; use another "
            "name, or fresh = true to start again");
        std::filesystem::remove(script.folder / "data.csv");
        CHECK(contains(script.run(), "run loaded data.csv, which is gone; use another name, or fresh"));
    }
    SECTION("fresh = true starts again") {
        script.replace("x + 1", "x + 2");
        script.replace("save = \"one\"", "save = \"one\", fresh = true");
        CHECK(script.run() == "2\t16.0\n");
    }
    SECTION("a journal that does not tell its run") {
        std::string rows = read_bytes(script.folder / "one/rows.jsonl");
        rows.replace(rows.find("\"run\""), 5, "\"ran\"");
        write_bytes(script.folder / "one/rows.jsonl", rows);
        CHECK(contains(script.run(), "one holds rows that do not tell which run function made them; use another name"));
    }
}

TEST_CASE("a sweep at the prompt sees a changed global, and a changed method written in Lua", "[lua][sweep]") {
    Shell lua;
    lua("function go() return sweep{grid = {N = {1}}, save = dir .. 'one', run = function(p) return p.N + level "
        "end}[1].value end");
    CHECK(lua("level = 1 return go()") == "2");
    CHECK(lua("return go()") == "2");
    CHECK(contains(lua("level = 2 return go()"), "one holds rows of another run function (changed: level); use"));
    CHECK(lua("level = 1 return go()") == "2");

    const std::string method = "register_method{name = 'own', forward = function(B, C, V) return V * factor end} ";
    CHECK(lua("factor = 1 " + method + "return go()") == "2");  // it is new, so no row can be of it
    lua("function by() return sweep{grid = {N = {1}}, save = dir .. 'two', run = function(p) return "
        "causal_linear_attention(ones(1, 1), ones(1, 1), ones(1, 1), {method = 'own'}):sum() end}[1].value end");
    CHECK(lua("return by()") == "1.0");
    CHECK(contains(lua("factor = 2 return by()"), "(changed: method own)"));
}

TEST_CASE("rows that failed before any was finished do not hold a repaired run back", "[lua][sweep]") {
    Shell lua;
    CHECK(contains(lua("sweep{grid = {N = {1}}, save = dir .. 'one', run = function(p) return q.N end}"), "index"));
    CHECK(lua("return sweep{grid = {N = {1}}, save = dir .. 'one', run = function(p) return p.N end}[1].value") == "1");
}

TEST_CASE("a file that run itself writes is not data", "[lua][sweep]") {
    Shell lua;
    lua("function go(n) return sweep{grid = {N = n}, save = dir .. 'one', run = function(p) save(dir .. 'a.json', "
        "{p.N}) return load(dir .. 'a.json')[1] end}[#n].value end");
    CHECK(lua("return go{1, 2}") == "2");
    CHECK(lua("return go{1, 2, 3}") == "3");
    CHECK(lua("os.remove(dir .. 'a.json') return go{1, 2, 3}") == "3");
}

TEST_CASE("a digest is that of the values, whatever the order in which a table was filled", "[lua][sweep]") {
    Shell lua;
    lua("function of(t) return causeway._digest_of_function(function() return t end).t end");
    CHECK(lua("local a, b = {}, {} for i = 1, 50 do a['k' .. i] = i b['k' .. 51 - i] = 51 - i end a.x = nil "
              "return of(a) == of(b), of(a) == of{k1 = 1}") == "true false");
    CHECK(lua("return of{1, 2} == of{1, 3}, of{1} == of{1.0}, of{[1] = 'a', [3] = 'b'} == of{'a', nil, 'b'}") ==
          "false false true");
    CHECK(lua("local deep, other = {}, {1} for i = 1, 1e4 do deep, other = {deep}, {other} end return #of(deep)") ==
          "16");
    CHECK(lua("return of(setmetatable({}, {__index = {a = 1}})) == of(setmetatable({}, {__index = {a = 2}}))") ==
          "false");
    CHECK(lua("local t = setmetatable({}, {__index = error, __eq = error, __len = error, __pairs = error}) t[t] = t "
              "return #of(t)") == "16");
    CHECK(lua("return of(print) == of(error), of(io.stdout) == of(io.stderr), of(function() return 1 end) == "
              "of(function() return 2 end)") == "false true false");
    CHECK(lua("return causeway._digest(zeros(2, 3)) == causeway._digest(zeros(3, 2)), causeway._digest({})") ==
          "false nil");
}

TEST_CASE("a digest sees the globals of a function of many constants, and of functions inside it", "[lua][sweep]") {
    Shell lua;
    // Past 256 constants the compiler reads a global through the table of all globals.
    lua("local parts = {} for i = 1, 300 do parts[i] = \"'c\" .. i .. \"'\" end many = load('return function() local t "
        "= {' .. table.concat(parts, ',') .. '} return far end')() "
        "function of(f) return causeway._digest_of_function(f) end");
    CHECK(lua("far = 1 local one = of(many) far = 2 local two = of(many) return one.far == two.far, "
              "one['the function'] == two['the function']") == "false true");
    lua("function nested() return function() return function() near = far return near + other.x end end end");
    CHECK(lua("other = {x = 1, y = 1} local d, names = of(nested), {} for name in pairs(d) do names[#names + 1] = name "
              "end table.sort(names) return table.concat(names, ' ')") == "far other the function");
}

TEST_CASE("results tell the script, the command, the build, the data and the commit", "[lua][sweep]") {
    Script script(R"(
local table_of = load("before.csv")
sweep{grid = {N = {1}}, save = "one", run = function(p) return p.N + table_of[1].x + load("during.csv")[1].x end}
local o = load("one/one.json").origins[1]
print(o.command[1]:match("[^/]+$"), table.concat(o.command, " ", 2), o.script.path, o.build ~= "", o.commit, o.dirty)
print(o.script.text == io.open("sweep.lua"):read("a"), #o.data["before.csv"], o.data["during.csv"],
  #o.run_data["during.csv"], o.run_data["before.csv"])
)");
    write_bytes(script.folder / "before.csv", "x\n1\n");
    write_bytes(script.folder / "during.csv", "x\n1\n");
    const std::string second = "true\t16\tnil\t16\tnil\n";
    CHECK(script.run({"--a", "b"}) == "causeway\tsweep.lua --a b\tsweep.lua\ttrue\tnil\tnil\n" + second);

    // For a copy the environment may say which commit it is; what is none is no commit.
    for (const auto& [said, kept] : {std::pair{"0123abc", "0123abc"}, std::pair{"main", "nil"}}) {
        std::filesystem::remove_all(script.folder / "one");
        ::setenv("CAUSEWAY_COMMIT", said, 1);
        CHECK(contains(script.run(), "\ttrue\t" + std::string(kept) + "\tnil\n" + second));
    }
    ::unsetenv("CAUSEWAY_COMMIT");
    std::filesystem::remove_all(script.folder / "one");
    script.run();

    const std::string git = "cd " + script.folder.path() + " && git -c user.name=a -c user.email=a@b ";
    if (causeway::testing::run_command(git + "init -q") != 0) return;
    std::filesystem::remove_all(script.folder / "one");
    CHECK(script.run() == "causeway\tsweep.lua\tsweep.lua\ttrue\tnil\tnil\n" + second);  // no commit yet
    REQUIRE(causeway::testing::run_command(git + "add sweep.lua && " + git + "commit -q -m one") == 0);
    std::filesystem::remove_all(script.folder / "one");
    CHECK(contains(script.run(), "\tfalse\n" + second));

    // The same commit, command and machine are one origin, whatever the point before a stop has loaded.
    std::string rows = read_bytes(script.folder / "one/rows.jsonl");
    rows.erase(rows.rfind("{\"origin\": 1"));
    write_bytes(script.folder / "one/rows.jsonl", rows);
    script.run();
    CHECK(count(read_bytes(script.folder / "one/rows.jsonl"), "\"date\"") == 1);
    CHECK(count(read_bytes(script.folder / "one/rows.jsonl"), "\"point\"") == 1);

    script.replace("p.N + ", "p.N - ");
    std::filesystem::remove_all(script.folder / "one");
    const std::string dirty = script.run();
    CHECK(contains(dirty, "\ttrue\n" + second));
    CHECK(dirty.find("\ttrue\n") - dirty.find("true\t") == 5 + 40);
}

TEST_CASE("the bars of a plot are a column", "[lua][sweep]") {
    Shell lua;
    CHECK(lua("r = sweep{grid = {N = {1, 2}}, run = function(p) return {y = p.N} end} r:plot('N', 'y', {error = "
              "true})") ==
          "user:1: plot: error: true, expected the name of a column with the length of the bars; for the spread of "
          "repeats "
          "let run return it beside their mean, as std and mean of btime");
}

TEST_CASE("a misspelt name of a point is an error, not a default in every row", "[lua][sweep]") {
    Shell lua;
    const std::string said =
        lua("local good, said = pcall(sweep, {grid = {N = {2, 4}, method = {'a', 'b'}}, run = function(p) return p.N * "
            "(p.metod "
            "and 2 or 1) end}) return said");
    CHECK(said.find("the point has no \"metod\" (did you mean \"method\"?): it has N and method") != std::string::npos);
    CHECK(lua("local seen = 0 sweep{grid = {N = {2}}, run = function(p) for k, v in pairs(p) do seen = seen + v end "
              "return p.N end} return seen") == "2");
}
