// The command line: scripts, -e, -i, standard input, exit statuses and the text of errors.
#include <signal.h>
#include <sys/stat.h>

#include "lua/bind/gpu.hpp"  // gpu_text
#include "tests/catch.hpp"
#include "tests/lua/program.hpp"
#include "tests/paths.hpp"

using namespace causeway::testing;

namespace {

Output run_script(const std::string& text, std::vector<std::string> arguments = {}) {
    const TemporaryFolder folder;
    write_bytes(folder / "script.lua", text);
    arguments.insert(arguments.begin(), "script.lua");
    return wait_for_program(folder, start_program(folder, arguments));
}

// What -e shows for the code, which must succeed.
std::string shown(const std::string& code) {
    const Output output = run_program({"-e", code});
    INFO(code);
    CHECK(output.err == "");
    CHECK(output.status == 0);
    return output.out;
}

// What -e says about the code, which must fail.
std::string complaint(const std::string& code) {
    const Output output = run_program({"-e", code});
    INFO(code);
    CHECK(output.status == 1);
    return output.err;
}

}  // namespace

TEST_CASE("-e shows values as the prompt does", "[lua][program]") {
    CHECK(shown("1+1") == "2\n");
    CHECK(shown("7 / 2") == "3.5\n");
    CHECK(shown("'a\\nb\"'") == "\"a\\nb\\\"\"\n");
    CHECK(shown("nil") == "nil\n");
    CHECK(shown("1, 'two', {3}") == "1\n\"two\"\n{3}\n");
    CHECK(shown("x=3; print(x)") == "3\n");
    CHECK(shown("x=3; x") == "3\n");
    CHECK(shown("x=3; x;") == "");
    CHECK(shown("1;") == "");
    CHECK(shown("1; -- hidden") == "");
    CHECK(shown("'; shown' -- ;") == "\"; shown\"\n");
    CHECK(shown("print(1) return 2") == "1\n2\n");
}

TEST_CASE("a function of hundreds of lines can be pasted", "[lua][program]") {
    std::string text = "function f(x)\n";
    for (int i = 1; i <= 300; ++i) text += "  x = x + " + std::to_string(i) + "  -- a line of it\n";
    const Output output = run_program({}, text + "  return x\nend\nf(0)\n");
    CHECK(output.err == "");
    CHECK(output.out == "45150\n");
}

TEST_CASE("-e may be repeated and shares variables", "[lua][program]") {
    const Output output = run_program({"-e", "x = 20", "-e", "x + 1", "-e", "ans * 2"});
    CHECK(output.out == "21\n42\n");
    CHECK(output.status == 0);
    CHECK(run_program({"-e", "print(1)", "-e", "error('stop')", "-e", "print(2)"}).out == "1\n");
}

TEST_CASE("several lines are evaluated one after the other and share their locals", "[lua][program]") {
    CHECK(shown("x = 1\nx + 1\nfor i = 1, 2 do\n  print(i)\nend\n\nx + 2") == "2\n1\n2\n3\n");
    CHECK(shown("local a = 1\nlocal b = 2\na + b") == "3\n");
    CHECK(shown("x = 1\n  + 2\nx") == "3\n");
    CHECK(shown("x = 4\n@show x\n?ans\nx") != "");
}

TEST_CASE("tables are shown to be read", "[lua][program][display]") {
    CHECK(shown("{}") == "{}\n");
    CHECK(shown("{1, 'b', {c = 4}, x = true}") == "{1, \"b\", {c = 4}, x = true}\n");
    CHECK(shown("{[true] = 1, ['two words'] = 2, [2.5] = 3, ['end'] = 4}") ==
          "{[2.5] = 3, [\"end\"] = 4, [\"two words\"] = 2, [true] = 1}\n");
    CHECK(shown("t = {}; t.t = t; t") == "{t = {…: itself}}\n");
    CHECK(shown("{{{{{1}}}}}") == "{{{{{…}}}}}\n");
    CHECK(contains(shown("t = {} for i = 1, 100 do t[i] = i end return t"), "… 60 more …,"));
    CHECK(shown("{setmetatable({}, {__tostring = function() return 'two\\nlines' end})}") == "{two}\n");
    CHECK(shown("{'\\1\\200'}") == "{\"\\x01\\xc8\"}\n");
    CHECK(shown("0/0, -math.huge, {0/0, x = 1/0}") == "NaN\n-Inf\n{NaN, x = Inf}\n");
    CHECK(shown("0.1 + 0.2, 1/3") == "0.30000000000000004\n0.3333333333333333\n");
    CHECK(shown("math.huge, -0.0, 1e100, 2^53, 10 // 3") == "Inf\n-0.0\n1e+100\n9007199254740992.0\n3\n");
    CHECK(shown("f = function(a, ...) end; f") == "function (a, ...) at (command line):1\n");
    CHECK(shown("display") == "function display, see ?display\n");
}

TEST_CASE("a value may say how it is shown", "[lua][program][display]") {
    CHECK(shown("setmetatable({}, {__tostring = function() return 'text' end})") == "text\n");
    CHECK(shown("setmetatable({}, {__rich = function() return {text = 'rich'} end})") == "rich\n");
    CHECK(shown("io.write('a') display('b') print('c')") == "a\"b\"\nc\n");
    CHECK(complaint("setmetatable({}, {__rich = function() return 5 end})") ==
          "error: __rich: expected a table {text = ..., svg = ..., html = ...}, got a number\n");
    CHECK(contains(complaint("setmetatable({}, {__tostring = function() error('inner', 0) end})"), "error: inner\n"));
}

TEST_CASE("prefixes of the prompt work in -e", "[lua][program]") {
    CHECK(shown("@show 1 + 1") == "1 + 1 = 2\n");
    CHECK(shown("@show 'a', 2;") == "'a', 2 = \"a\", 2\n");
    const std::string timed = shown("@time 6 * 7");
    CHECK(contains(timed, " seconds, peak extra memory 0 B\n42\n"));
    CHECK(contains(shown("@time x = 3"), " seconds"));
    CHECK(shown(";echo from the shell") == "from the shell\n");
    CHECK(contains(shown("?display"), "display(value, ...)"));
    CHECK(contains(shown("??contains the word"), "apropos"));
    CHECK(contains(shown("??kv cache"), "but ?kv cache is a page"));
    CHECK(contains(shown("?print"), "display(t)"));
    CHECK(complaint(";exit 3") == "error: the command ended with exit status 3\n");
    CHECK(complaint(";cd /no/such/folder") == "error: cd: /no/such/folder: No such file or directory\n");
    CHECK(complaint("@tme 1") == "error: @tme: expected @time, @btime or @show (did you mean \"@time\"?)\n");
    CHECK(complaint("@show") == "error: @show: expected an expression after it\n");
}

TEST_CASE("help finds, suggests and points to Lua's manual", "[lua][program][help]") {
    CHECK(contains(shown("?"), "?name shows help with an example"));
    CHECK(contains(shown("?dsplay"), "no help for \"dsplay\" (did you mean \"display\"?)"));
    CHECK(contains(shown("?string.rep"), "https://www.lua.org/manual/5.4/manual.html#pdf-string.rep"));
    CHECK(contains(shown("x = 5\n?x"), "A variable of yours: 5"));
    // What has several lines stands below in lines of its own, without the page of an option of that name.
    const std::string of_table = shown("s = show_table{{a = 1}};\n?s");
    CHECK(contains(of_table, "A variable of yours:\n\n a\n ─\n 1\n"));
    CHECK(contains(of_table, "An option of check_bound"));
    CHECK_FALSE(contains(of_table, "example"));
    CHECK(shown("help('display')") == shown("?display"));
    CHECK(shown("help(display)") == shown("?display"));
    CHECK(complaint("help({})") == "error: help: expected a name or a function of causeway, got a table\n");
    CHECK(complaint("apropos()") == "error: apropos: expected a word to search for\n");
}

TEST_CASE("an error is one sentence and a traceback of the user's lines", "[lua][program]") {
    const Output output =
        run_script("local function f(x)\n  return x.y.z\nend\nlocal function g() f({}) end\npcall(print)\ng()\n");
    CHECK(output.status == 1);
    CHECK(output.err ==
          "error: script.lua:2: attempt to index a nil value (field 'y')\n"
          "stack traceback:\n"
          "\tscript.lua:2: in upvalue 'f'\n"
          "\tscript.lua:4: in local 'g'\n"
          "\tscript.lua:6: in main chunk\n");
}

TEST_CASE("an error inside the library is reported at the user's line, which needs no traceback", "[lua][program]") {
    const Output output = run_script("local t = {1}\n\napropos(5)\n");
    CHECK(output.status == 1);
    CHECK(output.err == "error: script.lua:3: apropos: expected a word to search for\n");
    CHECK(run_script("local function refuse() error('--heads: 0, expected 1 or more', 0) end\nrefuse()\n").err ==
          "error: --heads: 0, expected 1 or more\n");
    CHECK(contains(run_script("local function refuse() error('at 12:30: too late') end\nrefuse()\n").err,
                   "traceback:\n\tscript.lua:1: in local 'refuse'"));
    const Output inner = run_script("help('display', causeway)\ncauseway._literal = nil\ndisplay({})\n");
    CHECK(inner.status == 1);
    CHECK(contains(inner.err, "error: "));
    CHECK(contains(inner.err, "stack traceback:\n\tscript.lua:3: in main chunk\n"));
    // An error that was caught and raised again has been somewhere else.
    CHECK(run_script("local _, m = pcall(function()\n return nil .. 1 end)\nerror(m, 0)\n").err ==
          "error: script.lua:2: attempt to concatenate a nil value\n"
          "stack traceback:\n\tscript.lua:3: in main chunk\n");
}

TEST_CASE("syntax errors say what is wrong", "[lua][program]") {
    CHECK(complaint("1 +") == "error: unexpected symbol near <eof>\n");
    CHECK(complaint("x = = 2") == "error: unexpected symbol near '='\n");
    CHECK(complaint("'abc") == "error: unfinished string near <eof>\n");
    const Output output = run_script("x = 1\n@time x\n");
    CHECK(output.status == 1);
    CHECK(output.err ==
          "error: script.lua:2: unexpected symbol near '@'\n"
          "hint: @time, @btime, @show, ?name and ;command are for the prompt and for -e\n");
}

TEST_CASE("error objects of every kind are reported", "[lua][program]") {
    CHECK(complaint("error('plain', 0)") == "error: plain\n");
    CHECK(complaint("error('')") == "error: (command line):1: \n");
    CHECK(complaint("error()") == "error: the error object is a nil value\n");
    CHECK(complaint("error({code = 1})") == "error: the error object is a table value: {code = 1}\n");
    CHECK(complaint("error(setmetatable({}, {__tostring = function() return 'custom' end}))") == "error: custom\n");
    CHECK(complaint("error(setmetatable({}, {__tostring = function() error('no') end}))") ==
          "error: the error object is a table value\n");
    CHECK(contains(complaint("error(print)"), "error: the error object is a function value: "));
}

TEST_CASE("nothing that a script does to Lua ends the program otherwise", "[lua][program]") {
    CHECK(contains(complaint("function f() return f() + 1 end f()"), "stack overflow"));
    CHECK(shown("function f() return pcall(f) end f();") == "");
    CHECK(complaint("('x'):rep(1 << 60)") == "error: resulting string too large\n");
    CHECK(complaint("('x'):rep(1 << 45)") == "error: resulting string too large\n");
    CHECK(shown("print, tostring, error, string, type, table, pairs, next = 1, 2, 3, 4, 5, 6, 7, 8\n{1, 'a'}") ==
          "{1, \"a\"}\n");
    CHECK(complaint("print, tostring, error, string, type = 1, 2, 3, 4, 5; apropos(nil)") ==
          "error: apropos: expected a word to search for\n");
    CHECK(shown("setmetatable({}, {__gc = function() error('in gc') end})\ncollectgarbage();") != "x");
    CHECK(complaint("do local t <close> = setmetatable({}, {__close = function() error('closing', 0) end}) end")
              .substr(0, 15) == "error: closing\n");
    CHECK(contains(complaint("local x <close> = setmetatable({}, {__close = function(_, e) io.stderr:write('with ', e, "
                             "'\\n') end}) error('outside', 0)"),
                   "with outside\n"));
    CHECK(shown("select(2, load(function() error('read', 0) end))") == "\"read\"\n");
    CHECK(complaint("coroutine.wrap(function() error('inside', 0) end)()") == "error: inside\n");
    CHECK(complaint("coroutine.create(5)") == "error: bad argument #1 to 'create' (function expected, got number)\n");
    CHECK(contains(complaint("setmetatable(_G, {__index = function() error('strict', 0) end})\nundefined"),
                   "error: strict\n"));
    CHECK(run_program({"-e", "os.exit(7)"}).status == 7);
    CHECK(run_program({"-e", "os.exit(true, true)"}).status == 0);
}

#if !defined(__SANITIZE_ADDRESS__)  // which needs more address space than there is
TEST_CASE("memory that runs out is an error of the script", "[lua][program]") {
    const TemporaryFolder folder;
    const auto limited = [&](const std::string& code) {
        write_bytes(folder / "script.lua", code);
#ifdef CAUSEWAY_GPU
        const std::string most = "1600000";  // KiB; cuBLAS alone is 650 MB of it
#else
        const std::string most = "200000";
#endif
        return std::system(("ulimit -v " + most + "; " + program_path() + " " + folder / "script.lua" + " > " +
                            folder / "out" + " 2> " + folder / "err")
                               .c_str());
    };
    CHECK(limited("local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000000) .. i end") != 0);
    CHECK(contains(read_bytes(folder / "err"), "error: out of memory\n"));
    CHECK(limited("print(pcall(function() local t = {} for i = 1, 1e9 do t[i] = {} end end)) collectgarbage() "
                  "print(#('x'):rep(1000))") == 0);
    CHECK(read_bytes(folder / "out") == "false\tnot enough memory\n1000\n");
    // The system says the same of a thread whose stack finds no room as of one thread too many.
    CHECK(limited("local q = randn(1, 1, 2048, 4) tree_decode(q, q, q, {shards = 1024})") != 0);
    CHECK(contains(read_bytes(folder / "err"), "out of memory: shards: 1024, there was room for "));
    CHECK(limited("threads(1024) local a = randn(300, 300) a = a * a") != 0);
    CHECK(contains(read_bytes(folder / "err"), "out of memory: threads: 1024, there was room for "));
}
#endif

// Where a limit on memory has been reached the main thread's stack grows no further, and nothing catches that.
TEST_CASE("the program has stack for products before memory runs out", "[lua][program]") {
    CHECK(shown("for line in io.lines('/proc/self/status') do local kib = line:match('^VmStk:%s*(%d+) kB') "
                "if kib then print(tonumber(kib) >= 1024) end end") == "true\n");
}

TEST_CASE("scripts get their arguments as from Lua", "[lua][program]") {
    const Output output = run_script("print(arg[0], arg[1], arg[2], #arg, ...)", {"one", "-e"});
    CHECK(output.out == "script.lua\tone\t-e\t2\tone\t-e\n");
    CHECK(run_program({"-", "a"}, "print(arg[0], ...)").out == "-\ta\n");
    CHECK(run_program({"-e", "print(arg[0] ~= nil, arg[1], #arg)"}).out == "true\t-e\t2\n");
    CHECK(run_program({"-e", "x = 1", "-"}, "print(x)").out == "1\n");
    CHECK(run_script("#!/usr/bin/env causeway\nprint('first line')").out == "first line\n");
    CHECK(run_script("\033Lua").status == 1);
}

TEST_CASE("a script finds modules beside it", "[lua][program]") {
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder / "sub");
    write_bytes(folder / "sub/module.lua", "return {answer = 42}");
    write_bytes(folder / "sub/script.lua", "print(require('module').answer)");
    CHECK(wait_for_program(folder, start_program(folder, {"sub/script.lua"})).out == "42\n");
}

TEST_CASE("-i runs a script, then the shell", "[lua][program]") {
    const TemporaryFolder folder;
    write_bytes(folder / "script.lua", "answer = 42");
    const Output output = wait_for_program(folder, start_program(folder, {"-i", "script.lua"}, "answer\n"));
    CHECK(output.out == "42\n");
    CHECK(output.status == 0);
}

TEST_CASE("the shell reads a pipe without prompts", "[lua][program]") {
    const Output output = run_program({}, "x = 2\nx * 21\nfor i = 1, 2 do\nprint(i)\nend\n'last'");
    CHECK(output.out == "42\n1\n2\n\"last\"\n");
    CHECK(output.status == 0);
    const Output failing = run_program({}, "error('a', 0)\n1\n");
    CHECK(failing.out == "1\n");
    CHECK(failing.err == "error: a\n");
    CHECK(failing.status == 1);
    CHECK(run_program({}, "").status == 0);
}

TEST_CASE("a script that is piped in has the hints of the prompt", "[lua][program][hints]") {
    const auto said = [](const std::string& script) {
        const Output output = run_program({"-"}, script);
        CHECK(output.status == 1);
        return output.err;
    };
    CHECK(contains(said("1+1\n"), "stdin:1: unexpected symbol near '1'\nhint: only the prompt shows values"));
    CHECK(contains(said("#!/bin/causeway\nx = A[1,2]\n"), "stdin:2: ']' expected near ','\nhint: a tensor is read"));
    CHECK(contains(said("y = np.zeros(3)"), "hint: np.zeros is zeros here"));
    CHECK_FALSE(contains(said("x y"), "hint"));
    CHECK(run_program({"-"}, "\xEF\xBB\xBFprint(3)").out == "3\n");
    CHECK(run_program({"-"}, "# nothing else").status == 0);
}

TEST_CASE("a script that is a pipe with a name is read once", "[lua][program]") {
    const TemporaryFolder folder;
    const auto run = [&](const std::string& text) {
        REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
        const pid_t child = start_program(folder, {"pipe", "a"});
        write_bytes(folder / "pipe", text);  // waits for the reader
        const Output output = wait_for_program(folder, child);
        for (const char* name : {"pipe", "out", "err"}) std::filesystem::remove(folder / name);
        return output;
    };
    CHECK(run("#!/bin/causeway\nprint(..., 7)\n").out == "a\t7\n");
    CHECK(contains(run("x = 1\nerror('mine')\n").err, "error: pipe:2: mine\n"));
    CHECK(contains(run("x = A[1,2]\n").err, "pipe:1: ']' expected near ','\nhint: a tensor is read"));
    // Nobody writes it.
    REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
    const pid_t child = start_program(folder, {"pipe"});
    REQUIRE(wait_for_file(folder / "err"));
    std::this_thread::sleep_for(std::chrono::seconds(1));
    kill(child, SIGINT);
    const Output output = wait_for_program(folder, child);
    CHECK(output.status == 130);
    CHECK(output.err == "interrupted\n");
}

TEST_CASE("a script that never ends is read no further than the compiler does", "[lua][program]") {
    CHECK(contains(run_program({"/dev/zero"}).err, "error: /dev/zero:1: unexpected symbol"));
    CHECK(contains(run_program({"-e", "dofile('/dev/zero')"}).err, "error: /dev/zero:1: unexpected symbol"));
}

TEST_CASE("a file of data that is given as a script is said to be one", "[lua][program]") {
    const TemporaryFolder folder;
    const auto said = [&](const std::string& name) {
        const Output output = run_in(folder, {name});
        CHECK(output.status == 1);
        return output.err;
    };
    run_in(folder, {"-e", "save('q.npy', ones(2)); save('x.csv', {{N = 1}})"});
    CHECK(said("q.npy") ==
          "error: q.npy is a file of data, no script of Lua: load(\"q.npy\") reads it, in the shell or in a script\n");
    CHECK(said("./x.csv") ==
          "error: ./x.csv is a file of data, no script of Lua: load(\"./x.csv\") reads it, in the shell or in a "
          "script\n");
    write_bytes(folder / "m.gguf", "GGUF");
    CHECK(contains(said("m.gguf"), "model(\"m.gguf\") reads it"));
    write_bytes(folder / "text.txt", "a text");
    CHECK_FALSE(contains(said("text.txt"), "file of data"));
    // What is a script is one by any name.
    write_bytes(folder / "script.csv", "print(3)");
    CHECK(run_in(folder, {"script.csv"}).out == "3\n");
}

TEST_CASE("True and False of Python are noted in a script", "[lua][program]") {
    const auto said = [](const std::string& script) { return run_program({"-"}, script).err; };
    const std::string note = "note: -: True is not defined, so it is nil (did you mean \"true\"?)\n";
    CHECK(said("local f = function(x) return x.a end f({a = True, b = True})") == note);
    CHECK(said("print(nil, True)") == note);
    CHECK(said("True = true print(True)") == "");
    CHECK(said("local t = {True = 1} print(t.True) -- True") == "");
}

TEST_CASE("the small models of the sources are found from any folder", "[lua][program][model]") {
    const causeway::testing::TemporaryFolder folder;
    CHECK(causeway::testing::run_in(folder, {"-e", "model('tiny-llama'):about().layers"}).out == "6\n");
    CHECK(contains(causeway::testing::run_in(folder, {"-e", "model('experiments/data/tiny-llama')"}).err,
                   "no such folder; model(\"tiny-llama\") finds it from any"));
}

TEST_CASE("require of what is not there says where it looks", "[lua][program]") {
    CHECK(
        contains(complaint("require('torch')"), "hint: the library is here already; require(\"name\") reads name.lua"));
}

TEST_CASE("a wrong command line ends with status 2 and a sentence", "[lua][program]") {
    Output output = run_program({"--nonsense"});
    CHECK(output.status == 2);
    CHECK(output.err == "causeway: unknown option --nonsense (--help shows the usage)\n");
    CHECK(output.out == "");
    output = run_program({"-e"});
    CHECK(output.status == 2);
    CHECK(output.err == "causeway: -e: expected code after it (--help shows the usage)\n");
    output = run_program({"missing.lua"});
    CHECK(output.status == 2);
    CHECK(output.err ==
          "causeway: cannot open the script missing.lua: No such file or directory (--help shows the usage)\n");
    CHECK(run_program({""}).status == 2);
}

TEST_CASE("--version and --help", "[lua][program]") {
    const Output version = run_program({"--version"});
    CHECK(version.status == 0);
    for (const char* part : {"causeway " CAUSEWAY_VERSION "\n", "compiler: ", "SIMD: ", "threads: "})
        CHECK(contains(version.out, part));
    CHECK(contains(version.out, causeway::lua::gpu_text() + "\n"));
    const Output help = run_program({"--help"});
    CHECK(help.status == 0);
    CHECK(contains(help.out, "usage: causeway"));
}

TEST_CASE("Ctrl-C ends a script with status 130", "[lua][program][interrupt]") {
    for (const char* code : {"io.open('ready', 'w'):close() while true do end",
                             "io.open('ready', 'w'):close() while true do pcall(function() while true do end end) end",
                             "io.open('ready', 'w'):close() coroutine.wrap(function() while true do end end)()"}) {
        const TemporaryFolder folder;
        const pid_t child = start_program(folder, {"-e", code});
        CHECK(wait_for_file(folder / "ready"));
        kill(child, SIGINT);
        const Output output = wait_for_program(folder, child);
        INFO(code);
        CHECK(output.status == 130);
        CHECK(output.err == "interrupted\n");
    }
}

TEST_CASE("Ctrl-C ends a finalizer that loops at the end of a script", "[lua][program][interrupt]") {
    const TemporaryFolder folder;
    const pid_t child = start_program(
        folder, {"-e", "setmetatable({}, {__gc = function() io.open('ready', 'w'):close() while true do end end})"});
    CHECK(wait_for_file(folder / "ready"));
    kill(child, SIGINT);
    CHECK(wait_for_program(folder, child).status == 130);
}

TEST_CASE("a time limit ends a message handler that loops", "[lua][program][interrupt]") {
    const Output output = run_program(
        {"-e", "causeway._with_timeout(0.1, function() xpcall(error, function() while true do end end) end)"});
    CHECK(output.status == 1);
    CHECK(contains(output.err, "the time limit was reached"));
}

TEST_CASE("what xpcall calls and says is Lua's", "[lua][program]") {
    CHECK(run_program({"-e", "print(xpcall(function(a, b) return a + b end, error, 3, 4))"}).out == "true\t7\n");
    CHECK(run_program({"-e",
                       "function f() error('x') end "
                       "print(xpcall(f, function(m) return m .. debug.getinfo(2, 'n').name end))"})
              .out == "false\t(command line):1: xerror\n");
    CHECK(run_program({"-e",
                       "f = coroutine.wrap(function() return xpcall(coroutine.yield, print, 1) end) "
                       "print(f(), f(2))"})
              .out == "1\ttrue\t2\n");
    CHECK(run_program({"-e", "xpcall(print)"}).err ==
          "error: bad argument #2 to 'xpcall' (function expected, got no value)\n");
}

TEST_CASE("a reader that goes away ends the program quietly", "[lua][program]") {
    const TemporaryFolder folder;
    const std::string command =
        program_path() + " -e 'while true do print(1) end' 2> " + folder / "err" + " | head -n 1 > " + folder / "out";
    CHECK(std::system(command.c_str()) == 0);
    CHECK(read_bytes(folder / "out") == "1\n");
    CHECK(read_bytes(folder / "err") == "");
}

TEST_CASE("what could not be written is an error, with its reason where that is known", "[lua][program]") {
    const TemporaryFolder folder;
    const std::string full = " > /dev/full 2> " + folder / "err";
    const std::string sentence = "error: not everything could be written to standard output";
    CHECK(std::system(("echo 'io.write(1)' | " + program_path() + " -" + full).c_str()) != 0);
    CHECK(read_bytes(folder / "err") == sentence + ": No space left on device\n");
    CHECK(std::system(("echo 1 | " + program_path() + full).c_str()) != 0);  // the shell's own flush met it first
    CHECK(read_bytes(folder / "err") == sentence + "\n");
}
