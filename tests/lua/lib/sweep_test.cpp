// sweep: order, statuses, what is on the disk, and that a sweep killed at any moment loses and repeats nothing.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "tests/catch.hpp"
#include "tests/lua/program.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::contains;
using causeway::testing::count;
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
    CHECK(lua("r:plot('N', 'x')") == "user:1: plot: no row has both N and x");
}

TEST_CASE("what sweep does not understand is told in a sentence", "[lua][sweep]") {
    Shell lua;
    CHECK(lua("sweep()") == "user:1: sweep: expected a table {grid = ..., run = ...}, got nothing");
    CHECK(lua("sweep{run = print}") ==
          "user:1: sweep: grid: expected a table of lists such as {N = {128, 256}}, got nothing");
    CHECK(lua("sweep{grid = {N = {1}}}") == "user:1: sweep: run: expected a function of a point, got nothing");
    CHECK(lua("sweep{grid = {N = 3}, run = print}") ==
          "user:1: sweep: grid.N: expected a list of values, got a number");
    CHECK(lua("sweep{grid = {N = {1, 1.0}}, run = print}") == "user:1: sweep: grid.N: 1 appears twice");
    CHECK(lua("sweep{grid = {N = {0/0}}, run = print}").find("user:1: sweep: grid.N: item 1 is ") == 0);
    CHECK(lua("sweep{grid = {N = {1}}, order = {'M'}, run = print}") ==
          "user:1: sweep: order: item 1 is \"M\", which is not in the grid");
    CHECK(lua("sweep{grid = {N = {1}}, run = function() end}") ==
          "user:1: sweep: run returned nothing at N = 1, expected a number or a table of results");
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
    SECTION("so is one that is no row and no origin") {
        const std::string rows = lua.file("one/rows.jsonl");
        for (const std::string line : {"{\"id\": 1, \"origin\": 5}", "{\"point\": {\"N\": 1}}", "{\"point\": 1}",
                                       "{\"id\": 1, \"run_data\": \"a\"}", "7"}) {
            CAPTURE(line);
            write_bytes(lua.path("one/rows.jsonl"), rows + line + "\n" + rows);
            CHECK(contains(lua("go()"), "one/rows.jsonl, line 5 is not a row; repair the file"));
        }
    }
    SECTION("two sweeps do not write the same journal") {
        CHECK(contains(lua("journal = causeway._open_journal(dir .. 'one/rows.jsonl') go()"),
                       "rows.jsonl is in use by another process"));
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
