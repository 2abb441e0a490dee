// The interactive shell, used through a pseudo-terminal as a person uses it.
#include <sys/stat.h>

#include <filesystem>
#include <sstream>
#include <thread>

#include "lua/bind/gpu.hpp"
#include "lua/shell/display.hpp"
#include "tests/catch.hpp"
#include "tests/lua/pty.hpp"

using namespace causeway::testing;

namespace {

constexpr const char* ctrl_c = "\x03";
constexpr const char* ctrl_d = "\x04";
constexpr const char* ctrl_u = "\x15";
constexpr const char* up = "\033[A";

// A shell at its first prompt, with a home of its own.
struct Session {
    TemporaryFolder home;
    Terminal terminal;
    explicit Session(const std::string& program = program_path(), std::vector<std::string> environment = {"NO_COLOR=1"})
        : terminal(home.path(), {}, std::move(environment), program) {
        terminal.wait_for_prompt();
    }

    // What the line shows up to where the next prompt begins.
    std::string answer(const std::string& line) { return terminal.answer(line); }
    void leave() {
        terminal.type(ctrl_d);
        CHECK(terminal.wait_for_end() == 0);
    }
};

// What a line editor does is tested with each: the test runs again for the next one.
std::string with_each_editor() {
    std::vector<std::string> programs{program_path()};
    if (program_with_libedit().empty())
        causeway::test::skip("tests of the shell with libedit", "it was not found when this was built");
    else programs.push_back(program_with_libedit());
    return GENERATE_REF(from_range(programs));
}

}  // namespace

TEST_CASE("the shell greets, shows values and leaves with Ctrl-D", "[lua][shell]") {
    const std::string program = with_each_editor();
    CAPTURE(program);
    TemporaryFolder home;
    Terminal terminal(home.path(), {}, {"NO_COLOR=1"}, program);
    const std::string banner = terminal.wait_for("causeway> ");
    CHECK(banner.find("causeway " CAUSEWAY_VERSION) != std::string::npos);
    CHECK(banner.find("?name") != std::string::npos);
    CHECK(terminal.answer("1 + 1") == "2\n");
    CHECK(terminal.answer("'a', {1, 2}") == "\"a\"\n{1, 2}\n");
    CHECK(terminal.answer("ans") == "\"a\"\n");
    CHECK(terminal.answer("ans .. 'b';") == "");
    CHECK(terminal.answer("ans") == "\"ab\"\n");
    CHECK(terminal.answer("x = 3") == "");
    CHECK(terminal.answer("x = x + 1; x") == "4\n");
    CHECK(terminal.answer("print('printed')") == "printed\n");
    terminal.type(ctrl_d);
    CHECK(terminal.wait_for_end() == 0);
    CHECK(terminal.shown().back() == '\n');
}

TEST_CASE("the prompt is coloured where the terminal has colours", "[lua][shell]") {
    const std::string program = with_each_editor();
    CAPTURE(program);
    TemporaryFolder home;
    Terminal terminal(home.path(), {}, {}, program);
    terminal.wait_for_prompt();
    CHECK(terminal.raw().find("\033[1;32mcauseway>\033[0m ") != std::string::npos);
    CHECK(terminal.answer("error('red', 0)") == "error: red\n");
    CHECK(terminal.raw().find("\033[1;31merror:\033[0m red") != std::string::npos);

    Terminal plain(home.path(), {}, {"NO_COLOR=1"}, program);
    plain.wait_for_prompt();
    CHECK(plain.raw().find("\033[1;32m") == std::string::npos);

    Terminal dumb(home.path(), {}, {"TERM=dumb"}, program);
    dumb.wait_for_prompt();
    CHECK(dumb.answer("1 + 1") == "2\n");
    CHECK(dumb.raw().find('\033') == std::string::npos);
    dumb.enter("print('started') while true do end");
    dumb.wait_for("started\n");
    dumb.type(ctrl_c);
    dumb.wait_for("interrupted\n");
    dumb.wait_for_prompt();
    dumb.type(std::string("half a line") + ctrl_c);
    dumb.wait_for_prompt();
    dumb.type(ctrl_d);
    CHECK(dumb.wait_for_end() == 0);
}

TEST_CASE("an entry goes on until it is complete", "[lua][shell]") {
    const std::string program = with_each_editor();
    CAPTURE(program);
    Session shell(program);
    shell.terminal.enter("for i = 1, 2 do");
    shell.terminal.wait_for("\n        > ");
    shell.terminal.enter("  print(i * 10)");
    shell.terminal.wait_for("\n        > ");
    CHECK(shell.answer("end") == "10\n20\n");
    shell.terminal.enter("x = [[one");
    shell.terminal.wait_for("\n        > ");
    CHECK(shell.answer("two]]") == "");
    CHECK(shell.answer("x") == "\"one\\ntwo\"\n");
    shell.terminal.enter("1 +");
    shell.terminal.wait_for("\n        > ");
    CHECK(shell.answer("2") == "3\n");
    CHECK(shell.answer("'open") == "error: unfinished string near <eof>\n");
    shell.terminal.enter("print(");
    shell.terminal.wait_for("\n        > ");
    shell.terminal.type(ctrl_c);
    shell.terminal.wait_for_prompt();
    CHECK(shell.answer("'fresh'") == "\"fresh\"\n");
    shell.terminal.enter("print(");
    shell.terminal.wait_for("\n        > ");
    shell.terminal.type(ctrl_d);
    CHECK(shell.terminal.wait_for_prompt().find("error: ") != std::string::npos);
    shell.leave();
}

TEST_CASE("errors are one sentence and keep the session", "[lua][shell]") {
    Session shell;
    CHECK(shell.answer("x = 1;") == "");
    CHECK(shell.answer("error('told')") == "error: told\n");
    CHECK(shell.answer("xyzzy.here") ==
          "error: attempt to index a nil value (global 'xyzzy')\n"
          "hint: nothing is called xyzzy here\n");
    CHECK(shell.answer("x = = 1") == "error: unexpected symbol near '='\n");
    CHECK(shell.answer("f = function() error('deep') end") == "");
    CHECK(shell.answer("f()") ==
          "error: deep\nstack traceback:\n\tinput[5]:1: in function 'f'\n\t  f = function() error('deep') end\n");
    CHECK(shell.answer("x") == "1\n");
    CHECK(shell.answer("function g() return g() + 1 end g()").find("stack overflow") != std::string::npos);
    CHECK(shell.answer("tostring, print, error = nil").find("the shell's own tostring is back in a new shell\n") !=
          std::string::npos);
    CHECK(shell.answer("{x}") == "{1}\n");
    shell.leave();
}

TEST_CASE("errors are broken between words at the terminal's width", "[lua][shell]") {
    using causeway::lua::in_whole_words;
    CHECK(in_whole_words("one two three", 7) == "one two\nthree");
    CHECK(in_whole_words("one two three", 80) == "one two three");
    CHECK(in_whole_words("a /very/long/path b", 5) == "a\n/very/long/path\nb");  // which can be copied
    CHECK(in_whole_words("  set in\nhint: β β β β\n", 9) == "  set in\nhint: β β\nβ β\n");
    CHECK(in_whole_words("", 5) == "");
    Session shell;
    const std::string words = shell.answer("error(('word '):rep(79) .. 'end')");
    CHECK(words.find("word\nword") == 7 + 5 * 37);  // "error: " and 38 words take 196 of 200 columns
    CHECK(words.find(" end\n") != std::string::npos);
    shell.leave();
}

TEST_CASE("a library's name that is overwritten is noted once at the prompt", "[lua][shell]") {
    TemporaryFolder home;
    write_bytes(home / "script.lua", "norm = 2");
    Terminal terminal(home.path(), {"-i", "script.lua"}, {"NO_COLOR=1"});
    CHECK(terminal.wait_for_prompt().find("note: this is yours now; the library's is causeway.norm\n") !=
          std::string::npos);
    CHECK(terminal.answer("size = 3") == "note: this is yours now; the library's is causeway.size\n");
    CHECK(terminal.answer("size = 4; norm = 5") == "");
    CHECK(terminal.answer("size") == "4\n");
    CHECK(terminal.answer("print = nil") == "note: this is nil now; the shell's own print is back in a new shell\n");
    CHECK(terminal.answer("print = nil; sum = nil") == "");
    terminal.enter("exit");
    CHECK(terminal.wait_for_end() == 0);
}

TEST_CASE("a local at the prompt is explained", "[lua][shell]") {
    Session shell;
    CHECK(shell.answer("local y = 1") == "(a local variable ends with its line; without `local` it stays)\n");
    CHECK(shell.answer("local y = 1; y + 1") == "2\n");
    shell.leave();
}

// The terminal drops what was typed before a Ctrl-C, at times just after it has announced it: the shell must not wait
// for it.
TEST_CASE("Ctrl-C is heard right behind other keys", "[lua][shell][interrupt]") {
    const std::string locale = GENERATE("C", "C.UTF-8");  // readline draws differently
    const std::string program = with_each_editor();
    CAPTURE(locale, program);
    Session shell(program, {"NO_COLOR=1", "LC_ALL=" + locale});
    const char* keys[] = {"",      "a",      "word", "\033", "\033[", "\022ab", "\026", "\033[200~pasted",
                          "\0335", "\"\xc3", "\030"};
    for (int round = 0; round < 10; ++round) {
        for (const char* typed : keys) {
            INFO("round " << round << ", typed before: '" << typed << "'");
            shell.terminal.type(typed);
            std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
            shell.terminal.type(ctrl_c);
            REQUIRE_NOTHROW(shell.terminal.wait_for("^C"));
            REQUIRE_NOTHROW(shell.terminal.wait_for_prompt());
            REQUIRE(shell.answer("'heard'") == "\"heard\"\n");
        }
    }
    shell.leave();
}

// A signal and a key that arrive at once: poll() tells of the key.
TEST_CASE("Ctrl-C is heard right before other keys", "[lua][shell][interrupt]") {
    const std::string program = with_each_editor();
    CAPTURE(program);
    Session shell(program);
    for (int round = 0; round < 50; ++round) {
        INFO("round " << round);
        shell.terminal.enter("x = [[");
        shell.terminal.wait_for("        > ");
        shell.terminal.type(std::string(ctrl_c) + "'heard'\r");
        REQUIRE_NOTHROW(shell.terminal.wait_for("\n\"heard\"\n"));
        REQUIRE_NOTHROW(shell.terminal.wait_for_prompt());
    }
    shell.leave();
}

TEST_CASE("a line editor that ends, or no longer answers, is replaced and the session goes on",
          "[lua][shell][interrupt]") {
    const std::string program = with_each_editor();
    CAPTURE(program);
    Session shell(program, {"NO_COLOR=1", "ASAN_OPTIONS=handle_segv=0"});
    const std::string ended =
        "(the line editor ended: Segmentation fault; the line is lost, and another editor goes on)\n";
    // The first child of the shell; the command itself is a later one.
    const std::string editor = "$(cut -d' ' -f1 /proc/$PPID/task/$PPID/children)";
    CHECK(shell.answer("kept = 42") == "");
    shell.terminal.enter(";kill -SEGV " + editor);
    shell.terminal.wait_for(ended);
    shell.terminal.wait_for_prompt();
    CHECK(shell.answer("kept") == "42\n");
    CHECK(shell.answer(";(sleep 0.5; kill -SEGV " + editor + ") &") == "");
    shell.terminal.type("half a line");
    shell.terminal.wait_for(ended);
    shell.terminal.wait_for_prompt();
    CHECK(shell.answer("kept") == "42\n");
    shell.terminal.enter(";kill -STOP " + editor);
    shell.terminal.wait_for("-STOP " + editor + "\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // until it is stopped, and waited for
    shell.terminal.type(ctrl_c);
    shell.terminal.wait_for("(the line editor did not answer Ctrl-C; the line is lost, and another editor goes on)\n");
    shell.terminal.wait_for_prompt();
    CHECK(shell.answer("kept") == "42\n");
    shell.leave();
}

TEST_CASE("Ctrl-Z stops the shell, and fg brings it back", "[lua][shell]") {
    const std::string program = with_each_editor();
    CAPTURE(program);
    const TemporaryFolder home;
    Terminal terminal(home.path(), {"--norc", "--noprofile", "-i"}, {"NO_COLOR=1", "PS1=bash> "}, "/bin/bash");
    terminal.wait_for("bash> ");
    terminal.enter(program);
    terminal.wait_for_prompt();
    CHECK(terminal.answer("B = randn(300, 300); B * B;") == "");  // from here on there are threads
    for (int round = 0; round < 3; ++round) {
        terminal.type("\x1a");
        terminal.wait_for("Stopped");
        terminal.wait_for("bash> ");
        terminal.enter("fg");
        terminal.wait_for_prompt();
        REQUIRE(terminal.answer("40 + 2") == "42\n");
    }
    terminal.type(ctrl_d);
    terminal.wait_for("bash> ");
    terminal.enter("exit");
    CHECK(terminal.wait_for_end() == 0);
}

TEST_CASE("Ctrl-C stops what runs and keeps the variables", "[lua][shell][interrupt]") {
    Session shell;
    CHECK(shell.answer("kept = 42") == "");
    const char* endless[] = {
        "print('started') while true do end",
        "print('started') while true do pcall(function() while true do end end) end",
        "print('started') while true do pcall(error) end",
        "print('started') coroutine.wrap(function() while true do pcall(function() while true do end end) end end)()",
        "print('started') local q = randn(4, 4) while true do q = q + q end",
        "print('started') return ('a'):rep(60):find(('a?'):rep(60) .. ('a'):rep(60))",
        "print('started') local s = setmetatable({}, {__index = function(t, k) return t[k + 1] and 1 end}) while true "
        "do pcall(function() return s[1] end) end",
        "print('started') xpcall(error, function() while true do end end)",
        "print('started') xpcall(function() while true do end end, function() while true do end end)",
        "print('started') coroutine.wrap(function() xpcall(error, function() while true do end end) end)()",
        "print('started') do local x <close> = setmetatable({}, {__close = function() while true do end end}) end",
    };
    for (const char* code : endless) {
        INFO(code);
        shell.terminal.enter(code);
        shell.terminal.wait_for("started\n");
        shell.terminal.type(ctrl_c);
        shell.terminal.wait_for("interrupted\n");
        shell.terminal.wait_for_prompt();
        CHECK(shell.answer("kept") == "42\n");
    }
    CHECK(shell.answer("randn(3):sum() == randn(3):sum()") == "false\n");
    shell.leave();
}

TEST_CASE("Ctrl-C where nothing can stop Lua says so, then leaves and keeps the entries", "[lua][shell][interrupt]") {
    const TemporaryFolder home;
    Terminal terminal(home.path(), {}, {"NO_COLOR=1"});
    terminal.wait_for_prompt();
    terminal.enter("setmetatable({}, {__gc = function() print('started') while true do end end}) collectgarbage()");
    terminal.wait_for("started\n");
    for (int press = 1; press <= 5; ++press) {
        terminal.type(ctrl_c);
        if (press == 3) terminal.wait_for("this step cannot be stopped; Ctrl-C twice more leaves causeway");
        std::this_thread::sleep_for(std::chrono::milliseconds(300));  // a key that is held down counts once
    }
    CHECK(terminal.wait_for_end() == 130);
    CHECK(contains(read_bytes(home / ".local/state/causeway/history"), "setmetatable({}, {__gc"));
}

TEST_CASE("Ctrl-C stops a long computation in parallel loops", "[lua][shell][interrupt]") {
    Session shell;
    CHECK(shell.answer("kept = 42; q = randn(3000, 3000);") == "");
    shell.terminal.enter("print('started') for i = 1, 1000000 do local p = q * q end");
    shell.terminal.wait_for("started\n");
    shell.terminal.type(ctrl_c);
    shell.terminal.wait_for("interrupted\n");
    shell.terminal.wait_for_prompt();
    CHECK(shell.answer("kept") == "42\n");
    shell.leave();
}

TEST_CASE("Ctrl-C stops a model that writes", "[lua][shell][interrupt][model]") {
    Session shell;
    CHECK(shell.answer("m = model{arch = 'llama', size = 'tiny', weights = 'random'};") == "");
    shell.terminal.enter(
        "m:generate('a', {tokens = 1e9, stream = function() told = told or print('it writes') or true end})");
    shell.terminal.wait_for("it writes\n");
    shell.terminal.type(ctrl_c);
    shell.terminal.wait_for("interrupted\n");
    shell.terminal.wait_for_prompt();
    CHECK(shell.answer("size(m:logits('abc'))") == "3\n256\n");
    shell.leave();
}

TEST_CASE("what a model writes breaks between words on a terminal, and is left as it is in a file",
          "[lua][shell][model]") {
    Session shell;
    winsize narrow{};
    narrow.ws_row = 40;
    narrow.ws_col = 20;
    CHECK(shell.answer("m = model('" + source_dir() + "/experiments/data/tiny-llama');") == "");
    CHECK(shell.answer("text = m:generate('In the beginning', {tokens = 60, stream = false});") == "");
    REQUIRE(shell.answer("#text > 40 and not text:find('%S' .. ('%S'):rep(20))") == "true\n");
    REQUIRE(shell
                .answer("io.output('t'); m:generate('In the beginning', {tokens = 60, stream = true}); io.close(); "
                        "io.output(io.stdout); io.open('t'):read('a') == text .. '\\n'")
                .ends_with("true\n"));
    shell.terminal.enter("text = text:gsub('%s+', ' '); print('whole:' .. text .. ':')");
    shell.terminal.wait_for("\nwhole:");
    const std::string whole = shell.terminal.wait_for(":\n");
    shell.terminal.wait_for_prompt();
    shell.terminal.resize(narrow);
    shell.terminal.enter("m:generate('In the beginning', {tokens = 60, stream = true})");
    shell.terminal.wait_for("})\n");
    const std::string shown = shell.terminal.wait_for("\ncauseway> ");
    CHECK(contains(squeezed(shown), squeezed(whole.substr(1, whole.size() - 3))));
    CHECK(!contains(shown, "\""));  // what has been streamed is not shown once more as the value
    std::istringstream lines(shown);
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 20);
    shell.leave();
}

TEST_CASE("Ctrl-C in the middle of work on a GPU is heard within half a second", "[lua][shell][gpu][interrupt]") {
    std::string why;
    if (!causeway::lua::gpu_available(&why)) {
        causeway::test::skip("interrupts of work on a GPU", why);
        return;
    }
    Session shell;
    // x takes softmax attention seconds, s takes linear attention less than a millisecond.
    REQUIRE(shell.answer("kept = 42; x = gpu_randn(1, 8, 2^20, 128, 'bf16');") == "");
    REQUIRE(shell.answer("s = gpu_randn(1, 8, 4096, 128, 'bf16');") == "");
    for (const char* code :
         {"softmax_attention(x, x, x, {causal = true}):cpu()", "while true do linear_attention(s, s, s) end",
          "while true do linear_attention(s, s, s):cpu() end",
          "gpu_time(function() softmax_attention(x, x, x, {causal = true}) end)"}) {
        CAPTURE(code);
        shell.terminal.enter("print('started') " + std::string(code));
        shell.terminal.wait_for("started\n");
        std::this_thread::sleep_for(std::chrono::milliseconds(700));
        shell.terminal.type(ctrl_c);
        CHECK(shell.terminal.shows("interrupted\n", std::chrono::milliseconds(500)));
        shell.terminal.wait_for_prompt();
        CHECK(shell.answer("kept, norm((2 * ones(2, 2)):gpu():cpu())") == "42\n4.0\n");  // waits for what runs on
    }
    shell.leave();
}

TEST_CASE("Ctrl-C at the prompt forgets the line", "[lua][shell][interrupt]") {
    const std::string program = with_each_editor();
    CAPTURE(program);
    Session shell(program);
    shell.terminal.type("half a li");
    shell.terminal.wait_for("half a li");
    shell.terminal.type(ctrl_c);
    CHECK(shell.terminal.wait_for_prompt() == "^C\ncauseway> ");
    CHECK(shell.answer("1") == "1\n");
    shell.leave();
}

TEST_CASE("prefixes at the prompt", "[lua][shell]") {
    Session shell;
    CHECK(shell.answer("@show 1 + 1") == "1 + 1 = 2\n");
    CHECK(shell.answer("@time 6 * 7").find(" seconds, peak extra memory 0 B\n42\n") != std::string::npos);
    CHECK(shell.answer(";echo hello") == "hello\n");
    CHECK(shell.answer(";false") == "error: the command ended with exit status 1\n");
    CHECK(shell.answer(";cd /") == "");
    CHECK(shell.answer(";pwd") == "/\n");
    CHECK(shell.answer("?display").find("display(value, ...)") != std::string::npos);
    CHECK(shell.answer("?disply").find("did you mean \"display\"?") != std::string::npos);
    CHECK(shell.answer("?").find("\n  tensor ") != std::string::npos);
    CHECK(shell.answer("?shell").find("terminal_size") != std::string::npos);
    shell.leave();
}

TEST_CASE("lines typed ahead or pasted are evaluated in order", "[lua][shell]") {
    const std::string program = with_each_editor();
    CAPTURE(program);
    Session shell(program);
    shell.terminal.type("a = 1\rb = a + 1\rb * 21\r");
    shell.terminal.wait_for("\n42\n");
    shell.terminal.wait_for_prompt();
    shell.terminal.type(
        "\033[200~local c = 5\nlocal function f(x)\n\treturn x + c\nend\nf(1)\033[201~\r");  // a bracketed paste
    shell.terminal.wait_for("\n6\n");
    shell.terminal.wait_for_prompt();
    shell.terminal.type("\033[200~causeway> d = 7\ncauseway> d\n7\n\033[201~\r");
    shell.terminal.wait_for("\n7\n\n7\n");
    shell.terminal.wait_for_prompt();
    shell.leave();
}

TEST_CASE("Tab completes", "[lua][shell][complete]") {
    const std::string program = with_each_editor();
    CAPTURE(program);
    Session shell(program);
    const auto completed = [&](const std::string& typed, const std::string& expected) {
        INFO(typed);
        shell.terminal.type(typed + "\t");
        shell.terminal.wait_for(expected);
        shell.terminal.type(ctrl_u);
    };
    completed("math.fl", "math.floor");
    completed("termin", "terminal_size");
    completed("print(math.ma", "print(math.max");
    completed("?terminal_s", "?terminal_size");
    completed("@ti", "@time ");
    write_bytes(shell.home / "data_file.lua", "");
    completed("dofile('data_f", "dofile('data_file.lua");
    completed(";cat data_f", "data_file.lua");
    CHECK(shell.answer("my_variable = {field_one = 1, nested = {leaf = 2}}") == "");
    completed("my_var", "my_variable");
    completed("my_variable.fie", "my_variable.field_one");
    completed("my_variable.nested.l", "my_variable.nested.leaf");
    CHECK(shell.answer("q = randn(2, 2)") == "");
    completed("q:opn", "q:opnorm");
    completed("randn(2, 2):opn", "opnorm");
    completed("('x'):rev", "('x'):reverse");
    completed("causal_linear_attention(q, q, q, {meth", "{method");
    completed("causal_linear_attention(q, q, q, {method=\"fle", "method=\"fleet");
    completed("print(q)  retu", "return");
    shell.terminal.type("math.f\t\t");
    CHECK(shell.terminal.wait_for("fmod").find("floor") != std::string::npos);
    shell.terminal.type(ctrl_u);
    shell.leave();
}

TEST_CASE("without a line editor lines are read plainly", "[lua][shell]") {
    Session shell(program_without_editor());
    CHECK(shell.answer("1 + 1") == "2\n");
    shell.terminal.enter("for i = 1, 2 do");
    shell.terminal.wait_for("\n        > ");
    CHECK(shell.answer("print(i) end") == "1\n2\n");
    shell.terminal.type("half a line");
    shell.terminal.type(ctrl_c);
    shell.terminal.wait_for_prompt();
    shell.terminal.enter("print('started') while true do end");
    shell.terminal.wait_for("started\n");
    shell.terminal.type(ctrl_c);
    shell.terminal.wait_for("interrupted\n");
    shell.terminal.wait_for_prompt();
    shell.leave();

    TemporaryFolder home;
    Terminal coloured(home.path(), {}, {}, program_without_editor());
    coloured.wait_for_prompt();
    CHECK(contains(coloured.raw(), "\n\033[1;32mcauseway>\033[0m "));
}

namespace {

// The last line that a terminal shows after these bytes, as far as line editors move about in it.
std::string last_line(const std::string& bytes) {
    std::vector<std::string> rows(1);
    std::size_t y = 0, x = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (rows.size() <= y) rows.resize(y + 1);
        std::string& row = rows[y];
        if (bytes[i] == '\r') x = 0;
        else if (bytes[i] == '\n') ++y;
        else if (bytes[i] == '\b') x -= x > 0;
        else if (bytes.compare(i, 2, "\033[") == 0) {
            const std::size_t end = bytes.find_first_not_of("0123456789;?", i + 2);
            if (end == std::string::npos) break;
            const int given = std::atoi(bytes.c_str() + i + 2);
            const std::size_t n = given > 0 ? static_cast<std::size_t>(given) : 1;
            if (bytes[end] == 'A') y -= std::min(n, y);
            if (bytes[end] == 'C') x += n;
            if (bytes[end] == 'D') x -= std::min(n, x);
            if (bytes[end] == 'K' && x < row.size()) row.resize(x);
            if (bytes[end] == 'P' && x < row.size()) row.erase(x, n);
            if (bytes[end] == '@') row.insert(std::min(x, row.size()), n, ' ');
            i = end;
        } else if (bytes[i] >= ' ') {
            if (row.size() <= x) row.resize(x + 1, ' ');
            row[x++] = bytes[i];
        }
    }
    while (rows.size() > 1 && rows.back().empty()) rows.pop_back();
    return rows.back();
}

}  // namespace

TEST_CASE("a search of the history that is given up leaves nothing behind the line", "[lua][shell][history]") {
    TemporaryFolder home;
    Terminal terminal(home.path());
    terminal.wait_for_prompt();
    terminal.enter("for i = 1, 3 do");
    terminal.wait_for("\n        > ");
    terminal.enter("print(i) end");
    terminal.wait_for_prompt();
    terminal.type("abc");
    terminal.wait_for("abc");
    terminal.type("\022");  // Ctrl-R
    terminal.wait_for("search");
    terminal.type("print");
    terminal.wait_for("for i");
    terminal.type("\007");  // Ctrl-G
    terminal.wait_for("causeway> abc");
    terminal.shows("a text that never comes", std::chrono::milliseconds(300));
    CHECK(last_line(terminal.raw()) == "causeway> abc");
    terminal.type(ctrl_c);
    terminal.wait_for("^C");  // the line may have been drawn twice, and its second prompt is not the next line's
    terminal.wait_for_prompt();
    terminal.type(ctrl_d);
    CHECK(terminal.wait_for_end() == 0);
}

TEST_CASE("history is kept across runs", "[lua][shell][history]") {
    const std::string program = with_each_editor();
    CAPTURE(program);
    TemporaryFolder home;
    {
        Terminal terminal(home.path(), {}, {"NO_COLOR=1"}, program);
        terminal.wait_for_prompt();
        CHECK(terminal.answer("'the \\\\ first'") == "\"the \\\\ first\"\n");
        CHECK(terminal.answer("'again'") == "\"again\"\n");
        CHECK(terminal.answer("'again'") == "\"again\"\n");
        terminal.enter("do local i = 6");
        terminal.wait_for("\n        > ");
        CHECK(terminal.answer("print(i * 7) end") == "42\n");
        terminal.type(ctrl_d);
        CHECK(terminal.wait_for_end() == 0);
    }
    CHECK(read_bytes(home / ".local/state/causeway/history") ==
          "'the \\\\\\\\ first'\n'again'\ndo local i = 6\\nprint(i * 7) end\n");
    Terminal terminal(home.path(), {}, {"NO_COLOR=1"}, program);
    terminal.wait_for_prompt();
    terminal.type(std::string(up) + "\r");
    terminal.wait_for("\n42\n");
    terminal.wait_for_prompt();
    terminal.type(std::string(up) + up + up + "\r");
    terminal.wait_for("\n\"the \\\\ first\"\n");
    terminal.wait_for_prompt();
    terminal.type(ctrl_d);
    CHECK(terminal.wait_for_end() == 0);
}

TEST_CASE("the history follows XDG_STATE_HOME, and a home that cannot be written is no error",
          "[lua][shell][history]") {
    TemporaryFolder home;
    {
        Terminal terminal(home.path(), {}, {"XDG_STATE_HOME=" + home / "state"});
        terminal.wait_for_prompt();
        CHECK(terminal.answer("1") == "1\n");
        terminal.type(ctrl_d);
        CHECK(terminal.wait_for_end() == 0);
    }
    CHECK(read_bytes(home / "state/causeway/history") == "1\n");
    Terminal terminal(home.path(), {}, {"HOME=/dev/null"});
    terminal.wait_for_prompt();
    CHECK(terminal.answer("1") == "1\n");
    terminal.type(ctrl_d);
    CHECK(terminal.wait_for_end() == 0);
}

namespace {

// The shell's answer to two entries, with this folder for its state; all that came behind the first prompt.
std::string two_entries(const TemporaryFolder& home) {
    Terminal terminal(home.path(), {}, {"NO_COLOR=1", "XDG_STATE_HOME=" + home / "state"});
    terminal.wait_for_prompt();
    std::string said = terminal.answer("1 + 1");
    said += terminal.answer("2 + 2");
    terminal.type(ctrl_d);
    CHECK(terminal.wait_for_end() == 0);
    return said;
}

mode_t mode_of(const std::string& path) {
    struct stat info {};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    return info.st_mode & 07777;
}

}  // namespace

TEST_CASE("a history is the owner's alone from its creation, and no other file is touched", "[lua][shell][history]") {
    const TemporaryFolder home;
    const std::string file = home / "state/causeway/history";
    CHECK(two_entries(home) == "2\n4\n");
    CHECK(mode_of(file) == 0600);
    CHECK(read_bytes(file) == "1 + 1\n2 + 2\n");

    SECTION("one that is there keeps its mode, through a link too") {
        std::filesystem::rename(file, home / "shared");
        std::filesystem::create_symlink(home / "shared", file);
        REQUIRE(::chmod((home / "shared").c_str(), 0644) == 0);
        CHECK(two_entries(home) == "2\n4\n");
        CHECK(mode_of(home / "shared") == 0644);
        CHECK(read_bytes(home / "shared") == "1 + 1\n2 + 2\n1 + 1\n2 + 2\n");
        CHECK(std::filesystem::is_symlink(file));
    }
    SECTION("a long one is cut in place") {
        std::string text;
        for (int i = 0; i < 10002; ++i) text += std::to_string(i) + "\n";
        std::filesystem::rename(file, home / "shared");
        std::filesystem::create_symlink(home / "shared", file);
        write_bytes(home / "shared", text);
        REQUIRE(::chmod((home / "shared").c_str(), 0640) == 0);
        CHECK(two_entries(home) == "2\n4\n");
        CHECK(mode_of(home / "shared") == 0640);
        CHECK(read_bytes(home / "shared").substr(0, 10) == "5002\n5003\n");
        CHECK(std::filesystem::is_symlink(file));
    }
    SECTION("/dev/null keeps none, and stays as it is") {
        std::filesystem::remove(file);
        std::filesystem::create_symlink("/dev/null", file);
        const mode_t before = mode_of("/dev/null");
        CHECK(two_entries(home) == "2\n4\n");
        CHECK(mode_of("/dev/null") == before);
    }
    SECTION("what is no regular file keeps nobody waiting, and is told once") {
        std::filesystem::remove(file);
        for (const std::string kind : {"pipe", "device", "folder"}) {
            CAPTURE(kind);
            if (kind == "pipe") REQUIRE(::mkfifo(file.c_str(), 0644) == 0);
            if (kind == "device") std::filesystem::create_symlink("/dev/zero", file);
            if (kind == "folder") std::filesystem::create_directory(file);
            const mode_t before = mode_of(file);
            CHECK(two_entries(home) == "(the history is not kept: " + file + ": it is not a regular file)\n2\n4\n");
            CHECK(mode_of(file) == before);
            std::filesystem::remove(file);
        }
    }
    SECTION("a folder in its way is told once") {
        std::filesystem::remove_all(home / "state");
        write_bytes(home / "state", "");
        CHECK(contains(two_entries(home), "(the history is not kept: " + file + ": Not a directory)\n2\n4\n"));
    }
}

TEST_CASE("a session that is killed has kept its entries, the one that ran too", "[lua][shell][history]") {
    const std::string program = with_each_editor();
    CAPTURE(program);
    Session shell(program);
    CHECK(shell.answer("1 + 1") == "2\n");
    shell.terminal.enter("print('started') while true do end");
    shell.terminal.wait_for("started\n");
    shell.terminal.kill_program();
    CHECK(shell.terminal.wait_for_end() == 128 + SIGKILL);
    CHECK(read_bytes(shell.home / ".local/state/causeway/history") == "1 + 1\nprint('started') while true do end\n");
}

// Chance tries others: tests/keys.
TEST_CASE("keys that would end other sessions, or keep them for ever", "[lua][shell][interrupt]") {
    const std::string program = with_each_editor();
    CAPTURE(program);
    Session shell(program);
    for (const std::string keys : {"\034", "\035\033a", "\0332147483648a"}) {
        CAPTURE(keys);
        shell.terminal.type(keys);
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        shell.terminal.type(ctrl_c);
        REQUIRE_NOTHROW(shell.terminal.wait_for_prompt());
        REQUIRE(shell.answer("'alive'") == "\"alive\"\n");
    }
    shell.terminal.enter("print('started') while true do end");
    shell.terminal.wait_for("started\n");
    shell.terminal.type("\034");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    shell.terminal.type(ctrl_c);
    shell.terminal.wait_for("interrupted\n");
    shell.terminal.wait_for_prompt();
    shell.leave();
}

TEST_CASE("a status line is replaced and gives way to what is shown", "[lua][shell][display]") {
    Session shell;
    shell.terminal.enter("causeway._status('half') causeway._status('whole') display(1)");
    shell.terminal.wait_for("\nhalfwhole1\n");
    CHECK(shell.terminal.raw().find("\r\033[Khalf\r\033[Kwhole\r\033[K1\r\n") != std::string::npos);
    shell.terminal.wait_for_prompt();
    shell.leave();
}

TEST_CASE("what a measured function prints stands on a line of its own", "[lua][shell][display]") {
    Session shell;
    shell.terminal.enter("p = progress(2) p:show('a step') print('printed') p:finish()");
    shell.terminal.wait_for("a stepprinted\n");
    CHECK(shell.terminal.raw().find("a step\r\033[Kprinted\r\n") != std::string::npos);
    shell.terminal.wait_for_prompt();
    shell.leave();
}

TEST_CASE("-i leaves the variables of the script in the shell", "[lua][shell]") {
    TemporaryFolder home;
    write_bytes(home / "script.lua", "answer = 42\nprint('ran', ...)");
    Terminal terminal(home.path(), {"-i", "script.lua", "argument"}, {"NO_COLOR=1"});
    terminal.wait_for("ran\targument\n");
    terminal.wait_for_prompt();
    CHECK(terminal.answer("answer") == "42\n");
    terminal.type(ctrl_d);
    CHECK(terminal.wait_for_end() == 0);
}
