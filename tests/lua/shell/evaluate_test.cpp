// Entries as the shell evaluates them: what they show, and what is said of those that fail.
#include "lua/shell/evaluate.hpp"

#include <memory>
#include <set>

#include "lua/bind/bind.hpp"
#include "lua/shell/display.hpp"
#include "lua/shell/hints.hpp"
#include "lua/shell/names.hpp"
#include "lua/shell/state.hpp"
#include "tests/catch.hpp"
#include "tests/lua/program.hpp"

using namespace causeway::lua;
using causeway::testing::contains;
using causeway::testing::count;

namespace {

struct Recorder : Display {
    std::string text;
    void show(const Rich& value) override { text += value.text + "\n"; }
    void status(std::string_view) override {}
    int columns() const override { return 80; }
    int rows() const override { return 24; }
    bool colour() const override { return false; }
};

class Session {
public:
    Session() : L_(new_state(), lua_close) { set_display(L_.get(), recorder_); }

    // What the entry shows, or "error: " and its message.
    std::string operator()(const std::string& entry) {
        recorder_.text.clear();
        const Failure failure = evaluate(L_.get(), entry, "input");
        return recorder_.text + (failure ? "error: " + failure.message : "");
    }
    lua_State* state() const { return L_.get(); }
    bool wants_more_after(const std::string& lines) const { return EntryReader(state()).wants_more_after(lines); }

private:
    Recorder recorder_;
    std::unique_ptr<lua_State, decltype(&lua_close)> L_;
};

}  // namespace

TEST_CASE("where an error is in an entry is told by the line that stands there", "[lua][evaluate]") {
    const std::unique_ptr<lua_State, decltype(&lua_close)> state(new_state(), lua_close);
    Recorder recorder;
    set_display(state.get(), recorder);
    int count = 0;
    const auto told = [&](const std::string& entry) {
        const Failure failure = evaluate(state.get(), entry, "input[" + std::to_string(++count) + "]");
        return failure.message + (failure.traceback.empty() ? "" : "\n" + failure.traceback);
    };
    // Within the line that was typed nothing but the message.
    CHECK(told("error('no')") == "no");
    CHECK(told("map(ones(2), function(x) return nil + 1 end)") == "attempt to perform arithmetic on a nil value");
    CHECK(told("grad(function(p) error('no') end, ones(2))") == "no");
    // Of another entry its line.
    told("f = function() error('deep') end");  // the fourth
    CHECK(told("f()") == "deep\ninput[4]:1: in function 'f'\n  f = function() error('deep') end");
    told("function g(x)\n  local y = 2\n  return error('in ' .. x) + y\nend");  // the sixth
    CHECK(told("g(3)") == "input[6]:3: in 3\ninput[6]:3: in function 'g'\n  return error('in ' .. x) + y");
    CHECK(told("function h() return g(1) + f() end\n\nh()")
              .ends_with("\ninput[8]:1: in function 'h'\n  function h() return g(1) + f() end\n"
                         "input[8]:3: in main chunk\n  h()"));
    // What a sweep or a rule caught on its way too.
    told("run = function(p) return p.N + nil end");  // the ninth
    CHECK(told("sweep{grid = {N = {1}}, run = run}") ==
          "attempt to perform arithmetic on a nil value (sweep at N = 1)\ninput[9]:1:\n"
          "  run = function(p) return p.N + nil end");
    told("q = ones(1, 1, 3, 2)");
    told("rule = recurrence{a = function(x) return x.f + nil end}");  // the twelfth
    CHECK(told("rule(q, q, q, {f = ones(1, 1, 3)})") ==
          "recurrence: a: +: expected a Tensor, got nothing\ninput[12]:1:\n  rule = recurrence{a = function(x) return "
          "x.f + nil "
          "end}");
    // A long line is cut.
    told("long = function() local a_name_that_is_long, another_one_that_is = 1, 2 error('no') end");
    CHECK(told("long()") ==
          "no\ninput[14]:1: in function 'long'\n  long = function() local a_name_that_is_long, another_one_that_is …");
    // Cells of a table, which have no traceback below them.
    const auto cell = [&](const std::string& function) {
        return told("b = benchmark_method(" + function + ", {lengths = {4}, heads = 1, rank = 2, show = false}) " +
                    "error(b[1].message, 0)");
    };
    CHECK(cell("f") == "deep, in the line: f = function() error('deep') end");
    CHECK(contains(cell("g"), ", in the line: return error('in ' .. x) + y"));
    CHECK(cell("function() error('no') end") == "no");
    // Lines of an entry are counted from its first, whatever came before it in pieces of their own.
    CHECK(told("x = 1\n\ny = 2\nz = x + nil").starts_with("input[19]:4: attempt to perform arithmetic"));
    CHECK(told("x = 1\ny = = 2").starts_with("input[20]:2: unexpected symbol"));
}

TEST_CASE("what an entry has written to a file is told by the path, not shown once more", "[lua][evaluate]") {
    Session session;
    const causeway::testing::TemporaryFolder folder;
    const std::string table = folder / "a.csv", page = folder / "a.md";
    session("t = text_table({{column = 1}})");
    CHECK(session("t:save('" + table + "')") == "saved as " + table + "\n");
    CHECK(session("ans == t") == "true\n");
    CHECK(session("t:save('" + table + "'):save('" + page + "')") == "saved as " + table + "\nsaved as " + page + "\n");
    CHECK(session("t:save('" + table + "');") == "");
    CHECK(session("u = t:save('" + table + "')") == "");
    CHECK(contains(session("t"), "column"));
    CHECK(contains(session("t:save('" + table + "'); t"), "column"));
    CHECK(session("show_table{{N = 1}}:save('" + table + "')").ends_with("saved as " + table + "\n"));
    CHECK(session("sweep{grid = {N = {1}}, run = function() return 1 end}:save('" + table + "')") ==
          "saved as " + table + "\n");
    CHECK(session("b = benchmark_method('fleet', {lengths = {8}, heads = 1, rank = 2, repeats = 1, show = false}); "
                  "b:save('" +
                  table + "')") == "saved as " + table + "\n");
    const std::string picture = folder / "a.svg";
    CHECK(session("p = plot({1, 2}); p:save('" + picture + "')") == "saved as " + picture + "\n");
    CHECK(contains(session("plot({1, 2}, {save = '" + picture + "'})"), "⠀") == contains(session("plot({1, 2})"), "⠀"));
    CHECK(count(session("plot({1, 2}, {save = '" + picture + "'})"), "saved as") == 0);
}

TEST_CASE("a path of load that is nearly right has a hint at what is there", "[lua][evaluate]") {
    Session session;
    const causeway::testing::TemporaryFolder folder;
    session("save('" + folder / "prompts.csv" + "', {{N = 1}})");
    const std::string hint = "\nhint: did you mean \"" + folder / "prompts.csv" + "\"?";
    CHECK(session("load('" + folder / "promts.csv" + "')") ==
          "error: " + folder / "promts.csv" + ": cannot be read: No such file or directory" + hint);
    CHECK(session("load('" + folder / "prompts" + "')").ends_with(hint));
    // Letters of the other case are nearer than another letter.
    session("save('" + folder / "prompTs2.csv" + "', {{N = 1}})");
    CHECK(session("load('" + folder / "PROMPTS.csv" + "')").ends_with(hint));
    // What load cannot read is not meant by what it can.
    session("io.open('" + folder / "script.py" + "', 'w'):close()");
    CHECK(!contains(session("load('" + folder / "scrip.npy" + "')"), "hint"));
    CHECK(!contains(session("load('" + folder / "elsewhere.csv" + "')"), "hint"));
    // A file that the user did not name is none of the user's to spell.
    CHECK(!contains(session("p = '" + folder / "prom" + "' load(p .. 'ts.csv')"), "hint"));
}

TEST_CASE("a file that dofile cannot compile has the hint that it has as a script", "[lua][evaluate]") {
    Session session;
    const causeway::testing::TemporaryFolder folder;
    session("f = io.open('" + folder / "first.lua" + "', 'w') f:write('x = 3\\nx\\n') f:close()");
    CHECK(contains(session("dofile('" + folder / "first.lua" + "')"), "hint: only the prompt shows values"));
}

TEST_CASE("the file that was written to is not shown", "[lua][evaluate]") {
    const auto shown = [](const std::string& entry) { return causeway::testing::run_program({"-e", entry}).out; };
    CHECK(shown("io.write('x')") == "x");
    CHECK(shown("io.write 'x'") == "x");
    CHECK(shown("io.write('x', (\"y\"):rep(2)); -- twice") == "xyy");
    CHECK(shown("io.stdout:write('x'):write('y')") == "xy");
    // Asked for otherwise, it is.
    CHECK(contains(shown("io.stdout"), "file ("));
    CHECK(contains(shown("f = io.stdout; f"), "file ("));
    CHECK(contains(shown("io.output()"), "file ("));
    CHECK(shown("x = {write = function() return 3 end}; x.write(1)") == "3\n");
}

TEST_CASE("a result that its function shows is shown once, and again when asked for", "[lua][evaluate]") {
    Session session;
    const std::string measured = "1 sample,";
    CHECK(count(session("btime(function() end, {samples = 1})"), measured) == 1);
    CHECK(count(session("ans"), measured) == 1);
    CHECK(count(session("t = btime(function() end, {samples = 1})"), measured) == 1);
    CHECK(count(session("t"), measured) == 1);
    CHECK(count(session("t"), measured) == 1);
    CHECK(count(session("u = btime(function() end, {samples = 1})\nu"), measured) == 2);
    CHECK(count(session("btime(function() end, {samples = 1});"), measured) == 1);
    CHECK(session("t = btime(function() end, {samples = 1, show = false})") == "");
    CHECK(count(session("for i = 1, 3 do btime(function() end, {samples = 1}) end"), measured) == 3);

    const std::string benchmark = "benchmark_method('fleet', {lengths = {8}, heads = 1, rank = 2, repeats = 1})";
    CHECK(count(session(benchmark), "N = 8") == 1);
    CHECK(count(session("r = " + benchmark), "N = 8") == 1);
    CHECK(count(session("r"), "N = 8") == 1);
    CHECK(count(session("r[1].method"), "fleet") == 1);
    CHECK(count(session("s = show_table{{column = 1}}"), "column") == 1);
    CHECK(count(session("s"), "column") == 1);
    for (const std::string call : {"methods()", "lowrank_methods()"}) {
        CAPTURE(call);
        const std::string shown = session(call);
        CHECK(count(shown, shown.substr(0, shown.find('\n'))) == 1);  // its title
        CHECK(session("m = " + call) == shown);
        CHECK(session("m") == shown);
        CHECK(session("#m > 5, m[1].name ~= nil") == "true\ntrue\n");
    }
}

TEST_CASE("an entry goes on until its last piece is complete, however it comes", "[lua][evaluate]") {
    Session session;
    CHECK_FALSE(session.wants_more_after(""));
    CHECK_FALSE(session.wants_more_after("x = 1"));
    CHECK_FALSE(session.wants_more_after("?help"));
    CHECK_FALSE(session.wants_more_after("x = )"));
    CHECK(session.wants_more_after("x = 1\nfor i = 1, 2 do"));
    CHECK_FALSE(session.wants_more_after("x = 1\nfor i = 1, 2 do\n\nend"));
    CHECK_FALSE(session.wants_more_after("if x then\n?help"));  // within a piece ? is no prefix: wrong Lua
    EntryReader lines(session.state());
    CHECK(lines.wants_more_after("function f(x)"));
    CHECK(lines.wants_more_after(""));
    CHECK(lines.wants_more_after("  local y = [[\n"));
    CHECK(lines.wants_more_after("end"));
    CHECK(lines.wants_more_after("]]"));
    CHECK_FALSE(lines.wants_more_after("end"));
    CHECK_FALSE(lines.wants_more_after("f(1)"));
    CHECK(lines.wants_more_after("while true do"));
}

TEST_CASE("macros stand behind =, ; and return as well", "[lua][evaluate]") {
    Session session;
    CHECK(count(session("t = @btime 1 + 1"), "samples,") == 1);
    CHECK(session("t.minimum > 0") == "true\n");
    CHECK(count(session("@btime 1 + 1"), "samples,") == 1);
    CHECK(count(session("t"), "samples,") == 1);
    CHECK(session("f = function(n) return n, n + 1 end") == "");
    std::string shown = session("x = @time f(3); x * 2");
    CHECK(count(shown, " seconds, peak extra memory 0 B") == 1);
    CHECK(shown.ends_with(" B\n6\n"));
    CHECK(session("x, y = @time f(4) -- of two values").ends_with(" B\n"));
    CHECK(session("x, y") == "4\n5\n");
    CHECK(session("local z = 7; @time z").ends_with(" B\n7\n"));
    CHECK(session("x = 1; @time x = 2").ends_with(" B\n"));
    CHECK(session("x") == "2\n");
    CHECK(count(session("@time f(1); @time f(2);"), "seconds") == 2);
    CHECK(session("x = 3; @show x") == "x = 3\n");
    CHECK(session("@show x; x + 1") == "x = 3\n4\n");
    CHECK(session("local w = 4\n@show w") == "w = 4\n");
    CHECK(session("x = @show 5 + 5") == "5 + 5 = 10\n");
    CHECK(session("@show 'a\\n\"b'") == "'a\\n\"b' = \"a\\n\\\"b\"\n");
    CHECK(session("ans") == "\"a\\n\\\"b\"\n");
    CHECK(count(session("for i = 1, 3 do\n  @time f(i)\nend"), "seconds") == 3);
    CHECK(count(session("@time y = @btime f(1)"), "seconds") == 1);
    CHECK(count(session("x = @time (function() local a = 1; return a end)()"), "seconds") == 1);
    CHECK(session("x") == "1\n");
    CHECK(count(session("local k = 2\n@time k\nk"), "2\n") == 1);
    CHECK(session("'@time 1'") == "\"@time 1\"\n");
    CHECK(session.wants_more_after("x = @time f("));
    CHECK(session.wants_more_after("x = @time f(\n1,"));
    CHECK_FALSE(session.wants_more_after("x = @time f(1)"));
    CHECK(contains(session("@benchmark f(1)"), "@btime f(x) measures many calls"));
    CHECK(contains(session("@printf(1)"), "string.format"));
    CHECK(session("x = @tme f(1)") == "error: @tme: expected @time, @btime or @show (did you mean \"@time\"?)");
    CHECK(session("x = @time") == "error: @time: expected an expression after it");
    CHECK(session("x = @time ; 3") == "error: @time: expected an expression after it");
    CHECK(session("@show x = 3") == "error: @show: expected an expression after it");
    CHECK(session("x = @time = 3") == "error: unexpected symbol near '='");
    CHECK(session("x = {@time f(1)}").substr(0, 6) == "error:");
    CHECK(session("x = {a = @time f(1), b = 2}") ==
          "error: @time: expected an expression up to the end of the line or a semicolon");
    CHECK(session("@time error('told', 0)") == "error: told");
}

TEST_CASE("a note says that a name inside of an entry is not defined", "[lua][evaluate]") {
    Session session;
    const auto notes = [&](const std::string& source) {
        std::string all;
        for (const std::string& note : notes_on_undefined_names(session.state(), source)) all += note + "\n";
        return all;
    };
    CHECK(notes("y = foo") == "foo is not defined, so it is nil here\n");
    CHECK(notes("y = rnadn;") == "rnadn is not defined, so it is nil here (did you mean \"randn\"?)\n");
    CHECK(notes("f(1, foo)") == "foo is not defined, so it is nil here\n");
    CHECK(notes("x = {foo, foo}") == "foo is not defined, so it is nil here\n");
    CHECK(notes("f(1, {method = fleeet})") ==
          "fleeet is not defined, so method is not given (a word stands in quotes: \"fleeet\")\n");
    CHECK(notes("f(1, {causal = False})") == "False is not defined, so it is nil here (did you mean \"false\"?)\n");
    CHECK(notes("y = foo\nz = 3") == "foo is not defined, so it is nil here\n");
    for (const char* quiet : {"y = randn",
                              "y = foo or 3",
                              "foo == nil",
                              "y = 1 == foo",
                              "y = x ~= foo",
                              "if foo then y = 1 end",
                              "type(foo)",
                              "print(1, foo)",
                              "foo, bar = 1, 2",
                              "local foo = nil; y = foo",
                              "f = function(foo) return foo end",
                              "for i, foo in ipairs({}) do y = foo end",
                              "y = {}.foo",
                              "y = {foo = 3}",
                              "y = 'foo'",
                              "foo = nil",
                              "y = foo.x",
                              "y = -- foo\n3",
                              "one, two = 1, nil; y = two",
                              "y = {two = two}"}) {
        CAPTURE(quiet);
        CHECK(notes(quiet) == "");
    }
}

TEST_CASE("a note says that a comma leaves the first size alone", "[lua][evaluate]") {
    Session session;
    const auto noted = [&](const std::string& source) {
        const auto notes = notes_on_cut_sizes(session.state(), source);
        return notes.empty() ? "" : notes.front();
    };
    CHECK(noted("size(a), size(b)") == "a comma behind size(a) leaves the first size alone: {size(a)} has all of them");
    CHECK(noted("print('a', A:size(), 3)") ==
          "a comma behind A:size() leaves the first size alone: {A:size()} has all of them");
    CHECK(noted("x = {size(f(a, b)), 3}").starts_with("a comma behind size(f(a, b)) "));
    // The whole of what the method is called on.
    for (const std::string call : {"rand(2, 3):size()", "B.x:size()", "f(a)[1].b:t():size()", "(a + b):size()"}) {
        CHECK(noted(call + ", 1").starts_with("a comma behind " + call + " leaves "));
        CHECK(noted("return " + call + ", 1").starts_with("a comma behind " + call + " leaves "));
    }
    for (const char* quiet : {"size(a)",
                              "size(a, 1), size(b, 2)",
                              "A:size(1), 3",
                              "zeros(size(a), 3)",
                              "x = size(a)",
                              "print(size(a))",
                              "size(a); b, c = 1, 2",
                              "'size(a), 3'",
                              "f(size(a), 2), 3",
                              ")",
                              "size(a",
                              ":size(), 3",
                              "):size(), 3",
                              "for i = 1, size(A), 2 do end",
                              "for i = 1, A:size(), 2 do end",
                              "'text':size(), 3",
                              "{1}:size(), 3",
                              "local function size(x) return 1 end size(a), 3",
                              "size = f size(a), 3",
                              "t.size(a), 3"}) {
        CAPTURE(quiet);
        CHECK(noted(quiet) == "");
    }
    CHECK(noted("for i = 1, 2 do x = {size(A), 2} end") != "");
    session("function size(x) return 7 end");
    CHECK(noted("size(a), 3") == "");
    CHECK(noted("a:size(), 3") != "");
}

TEST_CASE("a note says what of a call's values was taken", "[lua][evaluate]") {
    Session session;
    session("A, x, l = randn(2, 3), randn(4), {1, 2}");
    const auto noted = [&](const std::string& source) {
        const auto notes = notes_on_results(session.state(), source);
        return notes.empty() ? "" : notes.front();
    };
    CHECK(noted("s = size(A)") == "s is the first size alone: s = {size(A)} has all of them");
    CHECK(noted("s = A:size(); s") == "s is the first size alone: s = {A:size()} has all of them");
    CHECK(noted("y, i = maximum(A, 2)") == "maximum has one value, and i is nil: i = argmax(A, 2) has the places");
    CHECK(noted("y, p = minimum(A, 2)").ends_with("p = argmin(A, 2) has the places"));
    CHECK(noted("value, g = grad(f, x)") == "the gradient comes first: g, value = grad(...), so they are swapped here");
    CHECK(noted("x == 2") == "a tensor is never equal to a number: eq(x, 2) compares element by element");
    CHECK(noted("print(A - A ~= 0)") == "a tensor is never equal to a number: ne(A, 0) compares element by element");
    CHECK(notes_on_places(session.state(), "l[-1]") == std::vector<std::string>{"the last of l is l[#l]"});
    CHECK(notes_on_places(session.state(), "l[-1] = 3").empty());
    CHECK(notes_on_places(session.state(), "l[-2]; x[-1]").empty());
    for (const char* quiet : {"g, value = grad(f, x)",
                              "dx, dy = grad(f, x)",
                              "A == x",
                              "x(1) == 2",
                              "l == 2",
                              "#x == 2",
                              "o.x == 2",
                              "x == 2 + y",
                              "s = size(x)",
                              "n = size(A, 1)",
                              "s = {size(A)}",
                              "m, n = size(A)",
                              "s = size(A) + 1",
                              "s = size(B)",
                              "n = A:size(1)",
                              "y = maximum(A, 2)",
                              "m = maximum(A)",
                              "a, b = 1, 2",
                              "s = size(",
                              "y, i = maximum(",
                              "="}) {
        CAPTURE(quiet);
        CHECK(noted(quiet) == "");
    }
    session("y, i = maximum(A, 2)");
    CHECK(session("i") == "error: i is not defined");
}

TEST_CASE("tables show the elements of small tensors", "[lua][evaluate]") {
    Session session;
    session("l = {tensor{{1, 2.5}, {-3, 0/0}}, tensor{0.25, 1/3}, zeros(4, 4), zeros(0)}");
    CHECK(session("l") ==
          "{\n  2×2 Tensor{Float32} [1, 2.5; -3, nan],\n  2-element Tensor{Float32} [0.25, 0.3333],\n"
          "  4×4 Tensor{Float32},\n  0-element Tensor{Float32},\n}\n");
    CHECK(session("{a = tensor{1, 2}}") == "{a = 2-element Tensor{Float32} [1, 2]}\n");
}

TEST_CASE("a name without a value is said to be undefined", "[lua][evaluate]") {
    Session session;
    CHECK(session("foo") == "error: foo is not defined");
    CHECK(session("foo = nil") == "");
    CHECK(session("foo") == "error: foo is not defined");
    CHECK(session("x = 3; foo") == "error: foo is not defined");
    CHECK(session("foo; -- hidden") == "error: foo is not defined");
    CHECK(session("rnadn") == "error: rnadn is not defined (did you mean \"randn\"?)");
    CHECK(session("True") == "error: True is not defined (did you mean \"true\"?)");
    CHECK(session("linspace") == "error: linspace is not defined (linspace(a, b, n) is range(a, b, {length = n}))");
    CHECK(session("my_long_name = 1") == "");
    CHECK(session("my_long_nam") == "error: my_long_nam is not defined (did you mean \"my_long_name\"?)");
    CHECK(session("nil") == "nil\n");
    CHECK(session("({}).field") == "nil\n");
    CHECK(session("local y; y") == "nil\n");
    CHECK(session("foo == nil") == "true\n");
    CHECK(session("lineer_attention(1)") ==
          "error: attempt to call a nil value (global 'lineer_attention')\nhint: did you mean \"linear_attention\"?");
    CHECK(session("zeross(3):sum() + 1") ==
          "error: attempt to call a nil value (global 'zeross')\nhint: did you mean \"zeros\"?");
    CHECK(session("foo()") == "error: attempt to call a nil value (global 'foo')\nhint: nothing is called foo here");
}

TEST_CASE("a misspelt function of a script is told the near one", "[lua][evaluate]") {
    const auto output = causeway::testing::run_program({"-"}, "local x = 1\ncausal_linear_atention(x)\n");
    CHECK(output.status == 1);
    CHECK(contains(output.err,
                   "stdin:2: attempt to call a nil value (global 'causal_linear_atention')\nhint: did you mean "
                   "\"causal_linear_attention\"?\n"));
}

TEST_CASE("names that hide others are noted once", "[lua][evaluate]") {
    Session session;
    std::set<std::string> known;
    const auto notes = [&](const std::string& entry) {
        session(entry);
        std::string text;
        for (const auto& note : notes_on_hidden_names(session.state(), known)) text += note + "\n";
        return text;
    };
    CHECK(notes("x = 3; t = 2; _show = 1; ans = 4") == "");
    CHECK(notes("size = 3") == "note: this is yours now; the library's is causeway.size\n");
    CHECK(notes("size = 4") == "");
    CHECK(notes("size = nil") == "");
    CHECK(session("size(zeros(3))") == "3\n");
    CHECK(notes("size = 5") == "");
    CHECK(notes("norm = norm; sum = causeway.sum") == "");
    CHECK(notes("function load() end; pi = 3") ==
          "note: this is yours now; the library's is causeway.load\n"
          "note: this is yours now; the library's is causeway.pi\n");
    CHECK(notes("string = 'a'") == "note: this is yours now; the shell's own string is back in a new shell\n");
    CHECK(notes("do local zeros = 3 end") == "");
    // One that the library has is there again; one of the shell's is gone.
    CHECK(notes("load = nil; norm = nil") == "");
    CHECK(notes("tostring = nil") == "note: this is nil now; the shell's own tostring is back in a new shell\n");
    CHECK(notes("tostring = nil; x = nil") == "");
}

TEST_CASE("exit and quit leave, whatever stands behind them, and pi is a number", "[lua][evaluate]") {
    using causeway::testing::run_program;
    for (const std::string entry : {"exit", "quit", "exit;", "exit()", "quit()", "exit -- at last"}) {
        CAPTURE(entry);
        const auto output = run_program({}, "1\n" + entry + "\n2\n");
        CHECK(output.out == "1\n");
        CHECK(output.err == "");
        CHECK(output.status == 0);
    }
    CHECK(run_program({"-e", "exit(3)"}).status == 3);
    CHECK(run_program({"-e", "exit(false)"}).status == 1);
    const auto refused = run_program({"-e", "exit(3, 'why')"});
    CHECK(refused.status == 3);
    CHECK(refused.err == "error: why\n");
    CHECK(run_program({"-e", "exit", "-e", "1"}).out == "");
    Session session;
    CHECK(session("exit('now')") == "error: exit: status: now, expected a whole number, true or false");
    CHECK(session("pi == math.pi") == "true\n");
    CHECK(session("exit = 4") == "");
    CHECK(session("exit") == "4\n");
}

TEST_CASE("habits of Julia and Python that are not Lua get a line of help", "[lua][evaluate][hints]") {
    Session session;
    session("A = ones(2, 2); B = A; x = 2; y = 3; f = function(a) return a end; s = 'abc'; l = {1, 2}");
    const std::pair<std::string, std::string> habits[] = {
        {"l[1:2]", "{table.unpack(l, 1, 2)}"},
        {"l[1, 2]", "l[1][2]"},
        {"s[1:2]", "s:sub(1, 3)"},
        {"A[1,2]", "A(1, 2) or A({1, 3}, \":\")"},
        {"A[:, 1]", "A(1, 2) or A({1, 3}, \":\")"},
        {"A[1:2]", "A(1, 2) or A({1, 3}, \":\")"},
        {"A[1, 2] = 5", "A:set(x, 1, 2)"},
        {"l = [1, 2, 3]", "a list is {1, 2, 3}"},
        {"f(A, method=\"x\")", "f(A, {method = \"x\"})"},
        {"f(A; method=\"x\")", "f(A, {method = \"x\"})"},
        {"np.f(A, causal=True, b=None)", "at the end: f(A, {causal = true, b = nil})"},
        {"f(A, b=1, C)", "f(q, {method = \"fleet\"})"},
        {"@btime f($A)", "a name stands without $"},
        {"cost(method=\"fleet\")", "in a table at the end; ?cost shows what goes where"},
        {"plot(x=l, y=l)", "plot({x = l, y = l})"},
        {"A:plot(x, by=\"N\")", "A:plot(x, {by = \"N\"})"},
        {"table.sort(l, key=lambda r: r.a)", "table.sort(l, function(a, b) return a.t < b.t end)"},
        {"y = F.normalize(A, dim=-1)", "l2norm(k)"},
        {"sum(A, dim=1)", "mean(A, 1), A:sum(2)"},
        {"y = f(A, f(x), causal=true)", "f(A, f(x), {causal = true})"},
        {"all(A .> 0)", "gt(A, B)"},
        {"[A; A]", "cat(A, B, 1)"},
        {"A = [1 2; 3 4]", "tensor{{1, 2}, {3, 4}}"},
        {"from fla.ops.gla import chunk_gla", "?chunk_gla says"},
        {"if 1 > 2 then f() else if 2 > 1 then f() end", "elseif"},
        {"A:mean(dim=1)", "mean(A, 1)"},
        {"A(1, 2) = 3", "A:set(x, 1, 2)"},
        {"function g(a, b=3) return a end", "x = x or 3"},
        {"A .* B", "times(A, B)"},
        {"C = A(1) .* 2", "times(A, B)"},
        {"2 .* A", "times(A, B)"},
        {"A ./ B", "work element by element"},
        {"A .^ 2", "pow(A, x)"},
        {"exp.(A)", "exp(A) works on every element"},
        {"A @ B", "A * B is the product of matrices"},
        {"C = A @ f(B)", "A * B is the product of matrices"},
        {"A'", "A:t()"},
        {"C = A'", "A:t()"},
        {"(A * B)' + 1", "A:t()"},
        {"x != 3", "~="},
        {"if x != 3 then print(x) end", "~="},
        {"!x", "not"},
        {"x && y", "and"},
        {"x || y", "or"},
        {"btime(|| sum(x))", "function() return f() end"},
        {"f = || 3", "function() return f() end"},
        {"x += 1", "x = x + 1"},
        {"x *= 2", "x = x + 1"},
        {"x = y ** 2", "x^2"},
        {"for i in 1:10 print(i) end", "for i = 1, 10 do"},
        {"for i = 1:10", "for i = 1, 10 do"},
        {"for i in range(10):", "for i = 1, 10 do"},
        {"for i in range(10): print(i)\nx = 1", "for i = 1, 10 do"},
        {"if x == None: print(x)", "if x > 0 then"},
        {"while x: print(x)", "while x > 0 do"},
        {"import numpy as np", "?np.linspace"},
        {"from torch import nn", "?np.linspace"},
        {"for v in f(x):", "ipairs(list)"},
        {"if x == y:", "if x > 0 then"},
        {"while x == y:", "while x > 0 do"},
        {"if x == 2: print(x)", "if x > 0 then"},
        {"while x == 2: print(x)", "while x > 0 do"},
        {"def g(x):", "function f(x) return x^2 end"},
        {"g(x) = x^2", "function f(x) return x^2 end"},
        {"g = x -> x^2", "function(x) return x^2 end"},
        {"g = lambda x: x + 1", "function(x) return x^2 end"},
        {"x = 1:10", "range(1, 10)"},
        {"device()", "of calls it is an option, see"},
        {"x(1:2, :)", "A({1, 3}, \":\")"},
        {"y = A(:, 2)", "A(\":\", 2)"},
        {"rows = {{N = 1}}; rows:plot('N')", "plot(rows,"},
        {"rows = {{N = 1}}; rows:where{N = 1}", "ipairs(rows)"},
        {"%timeit f(x)", "@btime f(x)"},
        {"for _, m in ipairs(l) do io.write(m) @btime f(x) end", "btime(function() return f(x) end)"},
        {"zeros((2, 3))", "zeros(2, 3)"},
        {"B = reshape(A, (4, 1))", "zeros(2, 3)"},
        {"x = (1, 2)", "a list is {1, 2, 3}"},
        {"x = 3 # three", "--"},
        {"\xce\xb3 = 0.9", "ASCII"},
        {"y = 2\n\nz = A[1,2]\n", "A(1, 2)"},
        {"A ≈ B", "isapprox(A, B)"},
        {"sq = function(x) x^2 end", "return x^2 end"},
        {"function sq(x) x * x end", "return x^2 end"},
        {"y = x if x > 2 else 0", "x > 2 and 1 or 0"},
        {"y = x > 2 ? 1 : 0", "x > 2 and 1 or 0"},
        {"'a' + 'b'", "\"a\" .. \"b\""},
        {"'a' + 1", "\"a\" .. \"b\""},
        {"\"abc\":upper()", "(\"abc\"):upper()"},
        {"x++", "x = x + 1"},
        {"A \\ B", "inv(A) * b"},
        {"A(end, 1)", "A(size(A, 1), \":\")"},
        {"A({2, end}, ':')", "A({2, size(A, 1)}, \":\")"},
        {"y = A({1, end - 1}, ':')", "x({2, #x})"},
        {"r = {2, end}", "A({2, size(A, 1)}, \":\")"},
        {"A(2:end, 1)", "A({2, size(A, 1)}, \":\")"},
        {"randn(Float64, 3)", "randn(3, \"Float64\")"},
        {"B = A' * A'", "A:t()"},
        {"A(-1, 1)", "size(A, 1)"},
        {"A(1, 0)", "count from 1"},
        {"if x == 5 { print(x) }", "if x > 0 then"},
        {"while (x < 5) { print(x) }", "while x > 0 do"},
        {"for (i = 0; i < 5; i++) { print(i) }", "for i = 1, 10 do"},
        {"for i, v in enumerate({1, 2}): print(v)", "ipairs(list)"},
        {"[i^2 for i in 1:5]", "map(function(x) return x^2 end"},
        {"l = {x**2 for x in range(5)}", "a power is written x^2"},
        {"l = {x^2 for x in range(5)}", "map(function(x) return x^2 end"},
        {"int x = 3", "a variable is set by x = 3"},
        {"A:mean", "A:mean()"},
        {"zeros(2, 3, dtype=\"float64\")", "zeros(2, 3, \"Float64\")"},
        {"d = {\"a\": 1}", "{a = 1}"},
        {"d = {a: 1}", "{a = 1}"},
        {"d = Dict(\"a\" => 1)", "{a = 1}"},
        {"del x", "x = nil"},
        {"raise ValueError('a')", "error("},
        {"throw('a')", "error("},
        {"try f(x) catch e end", "pcall(f, x)"},
        {"class A: pass", "p = {a = 1}"},
        {"switch x", "elseif"},
        {"assert 1 == 1", "assert(isapprox(x, y))"},
        {"a = b = 3", "a, b = 3, 3"},
        {"g = function x return x end", "function(x) return x^2 end"},
        {"f{repeat = 2}", "repeats"},
        {"sleep(1)", "os.execute"},
        {"h = plot({1, 2}); h:title('T')", "title = \"T\""},
        {"assert torch.allclose(A, A)", "assert(isapprox(x, y))"},
        {"x is None", "x == nil"},
        {"\"abc\"[1]", "s:sub(1, 3)"},
        {"\"abc\".upper()", "(\"abc\"):upper()"},
        {"1_000", "1000"},
        {"A(end)", "x(#x)"},
        {"rand()", "math.random()"},
        {"for v in A: print(v)", "ipairs(list)"},
        {"print(A:mean)", "A:mean()"},
        {"x: int = 3", "a variable is set by x = 3"},
        {"\"x = %d\" % x", "string.format("},
        {"string(x)", "tostring(x)"},
        {"str(x)", "tostring(x)"},
        {"int(3.7)", "floor(x)"},
        {"printf(\"%d\", x)", "string.format"},
        {"math.round(3.7)", "it is round(x) here"},
        {"keys({a = 1})", "in pairs(t)"},
        {"dir(A)", "?tensor"},
        {"nobody.at_all", "nothing is called nobody here"},
        {"b = sweep{grid = {N = {1}}, run = function(p) return 1 end}; b.markdown()", "b:markdown(...)"},
        {"sweep{grid = {N = {1}}, run = function(N) return N * 2 end}", "return p.N end"},
        {"zeros(Int64, 2, 3)", "zeros(2, 3, \"Float64\")"},
        {"y = ones('Float32', 2)", "ones(2, \"Float32\")"},
        {"x |> f", "f(x)"},
        {"let x = 3", "a variable is set by x = 3"},
        {"const x = 3;", "a variable is set by x = 3"},
        // A line that ends in a semicolon, or has several parts.
        {"A[1, 2];", "A(1, 2) or A({1, 3}, \":\")"},
        {"y = 1; 2 .* A", "times(A, B)"},
        {"2 .* A; y = 1", "times(A, B)"},
        {"y = 1; 1 if x else 2;", "x > 2 and 1 or 0"},
        {"for i in range(10):;", "for i = 1, 10 do"},
        {"y = 1; cd results", ";cd FOLDER"},
        {"A; B", "print(x) shows x"},
        {"x + 1; y = 2", "print(x) shows x"},
        {"x .= 3", "A:fill(3)"},
        {"x[end]", "l[#l]"},
        {"y = A[end]", "x(#x)"},
        {"// all of it", "begins with --"},
        {"z = 3 // two words", "begins with --"},
        {"cd ..", ";cd FOLDER"},
        {"cd results", ";cd FOLDER"},
        {"!ls", ";ls at the prompt"},
        {"try:", "pcall(f, x)"},
        {"with open('a') as g:", "io.lines"},
        {"with no_grad():", "there is no with"},
        {"1 if x else 2", "x > 2 and 1 or 0"},
        {"for i = 1, 3 do @btime f(x) end", "btime(function()"},
        {"push!(A, 3)", "table.insert(l, x)"},
        {"exp!(A)", "x:exp_()"},
        {"A:repeat(2)", "cat(A, A, 1)"},
        {"y = 2x", "2 * x"},
        {"y = 3A + 1", "2 * x"},
        {"print('γ', A ≈ B)", "isapprox(A, B)"},
        {"x ≤ 3", "a <= b"},
        {"x = 'π' .. γ", "ASCII"},
        {"('a b'):split(' ')", "s:gmatch(\"%S+\")"},
        {"('a b'):strip()", "s:match("},
        {"for i=1,3 do i end", "no statement in a block: print(i) shows it"},
        {"for i = 1, 3 do i * 2 end", "print(i * 2) shows it"},
        {"for i = 1, 3 do\n  i\nend", "print(i) shows it"},
        {"if x then 5 end", "print(5) shows it"},
        {"if x then 'a' else 3 end", "print('a') shows it"},
        {"help zeros", "the page of a function is ?name, as ?zeros"},
        {"while x do f(x) + 1 end", "print(f(x) + 1) shows it"},
        {"print A", "print(x)"},
        {"for i = 1, 3 do print i end", "print(x)"},
        {"if not x then print not x end", "print(x)"},
        {"print(A, sep=\"\")", "io.write("},
        {"print(A, end=\"\")", "io.write("},
        {"sum(x for x in l)", "map(function(x) return x^2 end"},
        {"y = f(x^2 for i, x in l)", "map(function(x) return x^2 end"},
        {"1 in l", "d[x] ~= nil"},
        {"y = 'a' in l", "d[x] ~= nil"},
        {"if x in l then print(x) end", "d[x] ~= nil"},
        {"f(*l)", "f(table.unpack(l))"},
        {"f(x, *l)", "f(table.unpack(l))"},
        {"f(l...)", "f(table.unpack(l))"},
        {"f(x, **l)", "f(q, {causal = true})"},
        {"full((3, 3), 1)", "is fill(x, 2, 3) here"},
        {"repeat(randn(2, 3), 2)", "cat(A, A, 1)"},
        {"y = repeat(x, 2)", "cat(A, A, 1)"},
        {"randn((2,3))", "zeros(2, 3)"},
        {"load q.npy", "load(\"q.npy\")"},
        {"load runs/2024-a.csv", "load(\"runs/2024-a.csv\")"},
        {"load ../q.npy", "load(\"../q.npy\")"},
    };
    for (const auto& [entry, help] : habits) {
        CAPTURE(entry);
        const std::string said = session(entry);
        CAPTURE(said);
        const std::size_t at = said.find("\nhint: ");
        REQUIRE(at != std::string::npos);
        CHECK(contains(said.substr(at), help));
        CHECK(said.size() - at - 1 <= 80);
        CHECK(count(said, "\n") == 1);
    }
}

TEST_CASE("what is wrong in another way gets no hint", "[lua][evaluate][hints]") {
    Session session;
    for (const std::string entry : {"x = = 1",
                                    "x = 1 +* 2",
                                    "x = y == = 3",
                                    "f(1, , 2)",
                                    "if x = 3 then end",
                                    "for i in range(3) do while x y end end",
                                    "{a = 1, b = = 2}",
                                    "'open",
                                    "print('open",
                                    "f 3",
                                    "x = (f(1, 2) 3)",
                                    "(function(a, b) = 3",
                                    "x y",
                                    "(a = 3)",
                                    "t[1] t[2]",
                                    "for i = 1, 3 print(i) end",
                                    "x = 3 @time",
                                    "a.b.1",
                                    "end",
                                    "print((1, 2))",
                                    "goto 3",
                                    "print('A[1,2] != @') = 4",
                                    "y = 1; x y",
                                    "x = = 1; A",
                                    "for i = 1, 3 do x = i; x y end",
                                    "x = {1, 2",
                                    "print = = 3",
                                    "x print y",
                                    "f(a b for x in l)",
                                    "function g(a...) end",
                                    "x = 3 * * 4",
                                    "load x y",
                                    "load = = 3",
                                    "in = 3",
                                    "y = f(x\nfor i, v in ipairs(l) do print(v) end",
                                    "y = {x, 2\nfor i, v in ipairs(l) do print(v) end",
                                    "y = f(function(...) return g(3 ...) end)",
                                    "f(x)) = 3"}) {
        CAPTURE(entry);
        CHECK(session(entry).find("hint") == std::string::npos);
    }
    // An error of a line says nothing of another one.
    CHECK(session("x = 'A[1,2]' -- A .* B\ny = = 1").find("hint") == std::string::npos);
    CHECK(syntax_hint("", "script.lua:2: unexpected symbol near '@'") == "");
    CHECK(syntax_hint("x", "") == "");
    // Help is asked for in front, not behind as in IPython.
    const std::string question = "[string]:1: syntax error near '?'";
    CHECK(syntax_hint("causal_linear_attention?", question) ==
          "hint: help stands behind the sign: ?causal_linear_attention");
    CHECK(syntax_hint("A:mean ??", question) == "hint: help stands behind the sign: ?A:mean");
    CHECK(syntax_hint("x ? 1 : 0", question) == "hint: one of two values is chosen by x > 2 and 1 or 0");
}

TEST_CASE("what another library calls a name of here is told in a line", "[lua][evaluate][hints]") {
    Session session;
    session("x = randn(3); A = randn(2, 3); l = {1, 2}");
    const std::pair<std::string, std::string> habits[] = {
        {"causal_linear_attention(lowrank('favor+', A, A, {rank = 8}), A)", "result counts: B, C = lowrank(...)"},
        {"causal_linear_attention(A, A, A, {update = 'gated'})", "it is linear_attention's: update = \"gated\""},
        {"causal_linear_attention(A, A, A, {log_decay = -1})", "it is linear_attention's: update = \"gated\""},
        {"causal_linear_attention(A, A, A, {method = 'rwkv7'})", "it is a call of its own: rwkv7(...)"},
        {"softmax_attention(A, A, A, {block = 16})", "the call chooses its blocks: leave it out"},
        {"k = ones(1, 4, 9, 8); linear_attention(k, k, k, {update = 'delta'})", "from 0 to 1, such as rand(1, 4, 9)"},
        {"k = ones(1, 4, 9, 8); linear_attention(k, k, k, {update = 'gated'})", "too, such as -rand(1, 4, 9)"},
        {"lstsq(A, x)", "inv(A:t() * A) * (A:t() * b)"},
        {"oracle(A, A, A)", "it is called \"causal_oracle\" here"},
        {"sorted(l)", "table.sort(l) sorts a list"},
        {"reduce(l)", "for i, x in ipairs(l) do s = s + x end"},
        {"count(x)", "sum(gt(x, 0)) counts"},
        {"x:count()", "sum(gt(x, 0)) counts"},
        {"sub(A, A)", "A - B is it"},
        {"div(A, A)", "A / B divides element by element"},
        {"isfile('a')", "io.open(path) is nil where"},
        {"exists('a')", "io.open(path) is nil where"},
        {"set(A)", "it is a method of tensors: A:set(...)"},
        {"gpu()", "it is a method of tensors: A:gpu(...)"},
        {"sigmoid_(x)", "it is a method of tensors: A:sigmoid_(...)"},
        {"unregister_method('fleet')", "register_method with its name again replaces it"},
        {"remove_method('fleet')", "register_method with its name again replaces it"},
        {"plot(x, x, {labels = {'a'}})", "plot{{x = x, y = y, label = \"a\"}, ...}"},
        {"json.encode(l)", "it is called \"json_encode\" here"},
        {"json.parse('1')", "it is called \"json_decode\" here"},
        {"torch.zeros_like(A)", "zeros_like(A) is zeros({size(A)}, eltype(A))"},
        {"ones_like(A)", "ones_like(A) is ones({size(A)}, eltype(A))"},
        {"pytorch.grad(1)", "pytorch.grad is grad here, without pytorch. before it"},
        {"try: x", "errors are caught by ok, message = pcall(f, x)"},
        {"grad(function(y) return math.exp(y) end, 1.5)", "exp(x) is of numbers and of tensors, and grad sees it"},
        {"scan{step = function(s, y) return math.exp(y.x), s end, inputs = {x = x}, state = 0}",
         "exp(x) is of numbers and of tensors, and of the values of a step"},
        {"readfile('a.txt')", "io.open(\"a.txt\"):read(\"a\")"},
        {"read('a.txt')", "for line in io.lines(\"a.txt\") do"},
        {"load('a.txt')", "there is no such file; the text of one is io.open(path):read(\"a\")"},
        {"'a' * 3", "(\"ab\"):rep(3)"},
        {"torch.cuda.is_available()", "it is called \"has_gpu\" here"},
        {"t = time()", "clock() - t are seconds"},
        {"nothing", "(did you mean \"nil\"?)"},
        {"sort(l)", "table.sort(l) sorts a list"},
        {"save('no_such_folder/q.npy', A)", "mkpath(\"no_such_folder\") makes the folder"},
        {"load('~/no_such.pt')", "there is no such file"},
        {"lowrank()", "lowrank_methods() lists them"},
        {"svd(A).S", "U, S, V = svd(A) gives all three"},
        {"chunk_gated_delta_rule(q, k, v)", "linear_attention(from_fla{q = q, k = k, v = v, g = g, beta = beta"},
        {"linear_attention_step(A, A, A)", "zeros(b, h, d_k, d_v) is an empty state"},
        {"linear_attention_step(A, A, A, {update = 'linear'})", "the state comes fourth"},
        {"q, g = randn(1, 2, 9, 4), -rand(1, 2, 9); p = q(':', ':', {5, 5}, ':'); linear_attention_step(p, p, p, "
         "zeros(1, 2, 4, 4), {update = 'gated', log_decay = g(':', ':', 5)})",
         "log_decay = x(\":\", \":\", {5, 5})"},
        {"gelu(x)", "times(x, sigmoid(x * 1.702))"},
        {"gelu", "elu, relu, sigmoid, softmax and tanh are here"},
        {"silu(x)", "times(x, sigmoid(x))"},
        {"leaky_relu(x)", "relu(x) - relu(-x) * 0.01"},
        {"x:gelu()", "times(x, sigmoid(x * 1.702))"},
        {"cross_entropy(x, y)", "-mean(log(sum(times(softmax(x), y), 2)))"},
        {"mse_loss(x, x)", "mean(pow(x - y, 2))"},
        {"no_grad()", "detach(x)"},
        {"jacobian(f, x)", "grad(function(x) return f(x)(i) end, x)"},
        {"hessian(f, x)", "no second derivatives"},
        {"transpose(A)", "A:t() transposes"},
        {"torch.randn(2, 3)", "torch.randn is randn here, without torch. before it"},
        {"y = np.zeros(3)", "np.zeros is zeros here"},
        {"jnp.linalg.norm(A)", "jnp.linalg.norm is norm here"},
        {"np.linspace(0, 1, 5)", "np.linspace: linspace(a, b, n) is range(a, b, {length = n})"},
        {"F.gelu(x)", "F.gelu: gelu(x) is close to"},
        {"jnp.no_such_thing(3)", "functions have no jnp. before them here"},
        {"l * 2", "tensor{1, 2} * 2"},
        {"{{1, 2}, {3, 4}} * 2", "tensor{1, 2} * 2"},
        {"x % 2", "A - floor(A / 2) * 2"},
        {"x // 2", "floor(A / 2)"},
        {"range(5)", "as in range(1, 5)"},
        {"tensor(1, 2, 3)", "as in tensor{1, 2, 3}"},
        {"x.reshape(3, 1)", "with a colon"},
        {"x.mean(1)", "with a colon"},
        {"for i in range(1, 3) do end", "for i = 1, 10 do"},
        {"causal_linear_attention(A, A, A, {causal = true})", "always causal"},
        {"linear_attention(A, A, A, {is_causal = true})", "always causal"},
        {"softmax_attention(A, A, A, {window = 3})", "?window says what is nearest"},
        {"softmax_attention(A, A, A, {dropout = 0.1})", "?dropout says what is nearest"},
        {"np.where(A, 1, 0)", "np.where is where here"},
        {"A:masked_fill(A, 0)", "where(m, v, x); in place, x:set(v, m)"},
        {"masked_fill(A, A, 0)", "where(m, v, x)"},
        {"-Inf", "math.huge"},
        {"inf", "math.huge"},
        {"torch.optim.Adam(x)", "torch.optim.Adam is adam here"},
        {"nn.Linear(3, 4)", "x * W:t() + b"},
        {"x:expand(2, 3)", "repeat by themselves"},
        {"tile(A, 2)", "cat(A, A, 1)"},
        {"A:repeat_interleave(2)", "(A:reshape(n, 1, d) + zeros(n, k, d)):reshape(n * k, d)"},
        {"np.roll(x, 1)", "cat(x({N - k + 1, N}), x({1, N - k}), 1)"},
        {"A:flip(0)", "A({range(N, 1, {step = -1})})"},
        {"np.diff(x)", "x({2, N}) - x({1, N - 1})"},
        {"l:append(3)", "table.insert(l, x)"},
        {"l.append(3)", "table.insert(l, x)"},
        {"append(l, 3)", "table.insert(l, x)"},
        {"len(l)", "the length of a list l is #l"},
        {"for i, v in ipairs(x) do end", "ipairs(A:totable())"},
        {"enumerate(l)", "for i, x in ipairs(list) do"},
        {"pwd()", ";pwd at the prompt prints the folder"},
        {"ls", ";ls at the prompt"},
        {"ls -l", ";ls at the prompt"},
        {"include('a.lua')", "dofile(path)"},
        {"'a' * 'b'", "\"a\" .. \"b\""},
        {"x({2, -1})", "it is {2, 3}"},
        {"x({1, 2}) = 3", "A:set(x, 1, 2)"},
        {"x(':', 1) = 3", "A:set(x, 1, 2)"},
        {"np.max(A, 1)", "maximum(A, dim) here"},
        {"torch.min(A, 1)", "minimum(A, dim) here"},
        {"isequal(A, A)", "A == B is true for"},
        {"A:matmul(A)", "A * B is the product of matrices"},
        {"A({1, 3, 5})", "a list in a list: {{1, 3, 5}}"},
        {"A[{1, 3, 5}]", "A({{1, 3, 5}}), these rows"},
        {"x[gt(x, 0)]", "A(mask), the elements where the mask is 1"},
        {"torch.gather(A, 1, x)", "a one-hot matrix, ?one_hot"},
        {"A:index_select(1, x)", "A({{1, 3, 5}})"},
        {"nn.Embedding(3, 4)", "W({ids})"},
        {"x:nonzero()", "range(1, #mask)(mask)"},
        {"pow({w = A}, 2)", "take p.w"},
        {"report = 3; report(2)", "report is a variable of yours here; the library's is causeway.report"},
        {"eye(3)", "diag(ones(n))"},
        {"allclose(A, A)", "it is called \"isapprox\" here"},
        {"print(f\"{x}\")", "a text with a value in it is"},
        {"for a, b in l do end", "for key, value in pairs(t) do"},
        {"math.exp(x)", "exp(A) works on every element"},
        {"print('x = ' .. x)", "print(\"x =\", x) shows it"},
        {"l:markdown()", "text_table(rows):markdown()"},
        {"sum(x):item()", "a number has no \"item\" (A(1, 2) is a number already"},
        {"(3):backward()", "grad(f, params)"},
        {"y = (3)[1]", "a number has no elements"},
        {"size(A)[1]", "of a size it is size(A, 1)"},
        {"norm(A, {dims = 1})", "norm: argument 2: a table, expected none: the norm is of all elements"},
        {"A:to('float16')", "f16(A)"},
        {"sweep{grid = {N = {1}}, run = function() return eye(3) end}", "diag(ones(n))"},
        {"A:split(2)", "parts of A are A({1, 2}, \":\")"},
        {"save(A, 'a.npy')", "expected the path first, as in save(\"q.npy\", q)"},
        {"open('a.txt')", "io.open(path, \"r\")"},
        {"model{weights = 'random'}", "model{arch = \"llama\", size = "},
        {"plot(x, {x, x})", "plot{{x = x, y = y1}, {x = x, y = y2}}"},
        {"benchmark_method({'fleet', 'vanilla'})", "benchmark_method{methods = {\"fleet\", \"vanilla\"}}"},
        {"zeros(2, 3, f64)", "expected a name in quotes such as \"Float64\", got a function"},
        {"Float64(A)", "an element type stands in quotes: zeros(2, 3, \"Float64\")"},
        {"comba(A, A, A, {chunk_size = 3})", "it is called \"chunk\" here"},
        {"linear_attention(A, A, A, {output_final_state = true})", "the second result: o, S = linear_attention"},
        {"causal_linear_attention(A, A, A, {output_final_state = true})", "it is called \"return_state\" here"},
        {"linear_attention(A, A, A, {use_qk_l2norm_in_kernel = true})", "it is called \"qk_l2norm\" here"},
        {"linear_attention(A, A, A, {initial_state = A})", "it is called \"state\" here"},
        {"linear_attention(A, A, A, {head_first = true})", "it is called \"layout\" here"},
        {"linear_attention(A, A, A, {g = A})", "it is called \"log_decay\" here"},
        {"linear_attention(A, A, A, {use_gate_in_kernel = true})", "log_decay = a, A_log = A, dt_bias = t"},
        {"causal_linear_attention(A, A, A, {A_log = A})", "linear_attention makes the gate"},
        {"softmax_attention(A, A, A, {is_causal = true})", "it is called \"causal\" here"},
        {"softmax_attention(A, A, A, {softmax_scale = 1})", "it is called \"scale\" here"},
        {"softmax_attention(A, A, A, {enable_gqa = true})", "leave it out"},
        {"comba(A, A, A, {bta = 3})", "did you mean \"beta\"?"},
        {"text_table({{a = 1}}, {format = '%.1f'})", "columns = {{key = "},
        {"plot({1, 2}, {log = true})", "yscale = \"log\""},
        {"plot(x, math.sin)", "plot(x, map(f, x))"},
        {"plot(l.step)", "plot(rows, \"x\", \"y\")"},
        {"maximum(x, 0)", "it is max(A, B)"},
        {"map(function(r) return r.t end, {{t = 1}})", "a table with the key \"t\", expected numbers"},
        {"gla(A, A, A)", "it is linear_attention(q, k, v, {update = \"gated\", log_decay = g})"},
        {"compare(A, A, A)", "benchmark_method{inputs = {q, k, v}, methods = "},
        {"for name, y in l:items() do end", "for name, x in pairs(d) do"},
        {"l:keys()", "for name, x in pairs(d) do"},
        {"to_markdown(l)", "text_table(rows):markdown()"},
        {"text_table({{a = 1}}).to_latex()", "did you mean \"latex\"?"},
        {"function loss(p) return sum(p) end loss.backward()", "g, value = grad(loss, params) has its gradients"},
        {"torch.optim.Adam(W, lr=0.01)", "adam{W, lr = 0.01}"},
        {"optim.SGD(W, lr=0.1, momentum=0.9)", "sgd{W, lr = 0.1, momentum = 0.9}"},
        {"torch.manual_seed(0)", "it is called \"seed\" here"},
        {"torch.allclose(A, A)", "it is called \"isapprox\" here"},
        {"s = sweep{grid = {n = {'a', 'b'}}, run = function() return 1 end}; s:plot('n', 'value')",
         "column \"n\" holds \"a\", expected numbers; by = \"n\" makes a curve of each"},
        {"s = sweep{grid = {N = {1, 2}}, run = function(p) return p.N end}; s:where{N == 2}",
         "where: filter: {false}, a comparison, expected {name = value}, as in results:where{N = 1}"},
        {"grad(function(x) return x:sum() end, {1, 2, 3})",
         "it is a method of tensors: of a list, tensor({1, 2, 3}):sum()"},
        {"q, k = randn(1, 4, 5, 3), randn(1, 2, 5, 3); B, C = lowrank('svd', q, q, {rank = 2}); lowrank_error(q, k, B, "
         "C)",
         "k(\":\", {{1, 1, 2, 2}}, \":\", \":\") has each head of k as often as q needs it"},
        {"crossentropy(A, A)", "-mean(log(sum("},
        {"checkgrad(f, A)", "?checkgrad says what is nearest"},
        {"using LinearAlgebra", "all of the library is here"},
        {"c = {q = A, k = A, v = A}; heatmap(c.scores)", "m:capture{..., what = \"scores\"} asks for it"},
        {"e = lowrank_error(randn(9, 2), randn(9, 2), rand(9, 3), rand(9, 3)); e.relative", "e.frobenius.relative"},
        {"Random.seed!(0)", "seed(0) begins the random numbers anew"},
        {"save('x.svg', A)", "a plot is saved by its own method: A:save(\"x.svg\")"},
        {"show_table({{a = 1}}, {caption = 'T'})", "show_table: unknown option \"caption\""},
        {"sweep{grid = {N = {1}}, run = function(p) return {t = btime(function() end, {show = false})} end}",
         "t = btime(f).median"},
        {"torch.autograd.grad(f, A)", "torch.autograd.grad: it is grad here, see ?grad"},
        {"d = {layers = function() end} x = d.layers[1]", "layers is a method: d:layers() calls it"},
        {"function loss(p) end x = loss[1]", "loss is a function: loss(...) calls it"},
        {"filter({1, 2}, function(x) return x > 1 end)", "rows of a sweep: results:where{n = 3}"},
        {"sum(A):backward()", "g, value = grad(f, params)"},
        {"A.requires_grad = true", "g, value = grad(loss, params)"},
        {"requires_grad(A)", "it is g, value = grad(loss, params)"},
        {"causal_linear_attention({A, A, A})", "{q = q, k = k, v = v}; one after the other they need none: (q, k, v)"},
        {"causal_linear_attention(A, A, f64(A))", "f32(V) makes V Float32, f64(B) makes B Float64"},
        {"linear_attention(A, A, A, {update = 'delta'})", "beta is writing strength"},
        {"B = randn(1, 2, 5, 4); softmax_attention(B, B, B(1, ':', ':', ':'))", "a range keeps it: A(\":\""},
        {"softmax_attention(A, A, A, {mask = A})", "the nearest here is \"causal\""},
        {"println(A)", "print(x) prints a line"},
        {"lowrank_names()", "it is called \"lowrank_methods\" here"},
        {"plot_heatmap(A)", "it is called \"heatmap\" here"},
        {"write('x.md', 'y')", "save(path, x) writes x"},
        {"size(nowhere)", "nowhere is not defined"},
        {"y = norm(nowhere)", "nowhere is not defined"},
        {"rows = {{gamma = 1}}; rows[1].gama * 2", "rows[1] has no \"gama\" (did you mean \"gamma\"?)"},
        {"q = ones(1, 1, 4, 2); f = function(B, C, V) return causal_oracle(B, C, V) end "
         "register_method{name = 'wide', forward = f} causal_linear_attention(q, q, q, {method = 'wide'})",
         "f32(o) has this type"},
        {"q = ones(1, 1, 4, 2); opcount(function() return causal_linear_attention(q, q, q) end)",
         "opcount(causal_linear_attention, q, k, v, {method = \"recursion\"})"},
        {"rows = {{gamma = 1}}; rows.sort()", "table.sort(l)"},
        {"d = {q = A, k = A}; d:size()", "d is a table of tensors by name: d.k:size()"},
        {"A.cpu()", "a method is called with a colon"},
        {"text_table{{a = 1}}.save('x.tex')", "a method is called with a colon, as in tab:save(\"x.tex\")"},
        {"q = ones(1, 2, 4, 3); x = zeros(1, 2, 3, 3) causal_linear_attention(q(':', ':', 1, ':'), q(':', ':', 1, "
         "':'), "
         "q(':', ':', 1, ':'), {state = x})",
         "a number drops the dimension"},
        {"A * nowhere", "nowhere is not defined"},
        {"norm(nowhere - A)", "nowhere is not defined"},
        {"y = A / (A + nowhere)", "nowhere is not defined"},
        {"@btime sum(A) samples=10", "expected an expression alone; options are those of btime(f, {samples = 10})"},
        {"x = zeros(1, 4, 1, 3) linear_attention_step(x, x, x)", "linear_attention_step(q, k, v, zeros(1, 4, 3, 3))"},
        {"model('tiny_llama')", "did you mean \"tiny-llama\"?"},
        {"causal_linear_attention_step(A, A, A)", "it is called \"linear_attention_step\" here"},
        {"benchmark_method('fleet', {shape = {1, 2, 8, 4}})", "sizes are lengths = {1024}, batch, heads"},
        {"m = model{arch = 'llama', size = 'tiny', weights = 'random'} m.generate('a text', 20)", "with a colon"},
        {"m = model{arch = 'llama', size = 'tiny', weights = 'random'} m:attention{with = 'elu'}", "elu(q) + 1"},
        {"m = model{arch = 'llama', size = 'tiny', weights = 'random'} m:attention{with = 'linear', options = "
         "{features = "
         "'elu'}}",
         "\"taylor\""},
        {"table({{a = 1}})", "show_table(rows)"},
        {"q = rand(4, 2) e = lowrank_error(q, q, q, q, {v = q}) x = e.output.masked_relative",
         "mean \"relative_masked\"?"},
        {"benchmark(function() return sum(A) end)", "btime(f) times a function without arguments"},
        {"nn.shape", "nothing is called nn here"},
        {"write_csv('x.csv', {{a = 1}})", "it is called \"save\" here"},
        {"linear_attention_gradient(A, A, A)", "it is called \"linear_attention_grad\" here"},
        {"memory(A)", "it is called \"measured_call\" here"},
        {"@memory A", "@time f(x) shows the peak of extra memory"},
        {"bits_per_byte(nowhere, \"a text\")", "it is a method of models: nowhere:bits_per_byte(\"a text\")"},
        {"generate(\"a text\")", "m:generate(\"a text\")"},
        {"b = benchmark_method(\"fleet\", {lengths = {16}, repeats = 1, show = false}); latex(b)", "b:latex()"},
        {"matmul(A, A)", "A * B is the product"},
        {"length({1, 2})", "#x"},
        {"save(\"x.tex\", {{N = 1}})", "text_table(rows):save(\"x.tex\")"},
        {"round(2.567, {digits = 2})", "string.format"},
        {"randn(2, 2):norm(2)", "opnorm(A)"},
        {"fit_power(A, A)", "it is called \"growth_exponent\" here"},
        {"isempty(l)", "#l == 0 says whether a list is empty"},
        {"gradient(f, 2)", "it is called \"grad\" here"},
        {"nn.Linear(3, 4)", "x * W:t() + b"},
        {"lowrank('performr', A, A)", "did you mean \"performer\", here \"favor+\"?"},
        {"isapprox(svd(A), svd(A))", "(svd(A)) is the first alone"},
        {"B = randn(1, 1, 4, 3); causal_linear_attention(B, B, B, {decay = rand(1, 1, 4)})", "log_decay = log(decay)"},
        {"opt = adam{{w = A}}; opt:params()", "it is a table and not called: opt.params"},
        {"s = sweep{grid = {N = {1}}, run = function() return 1 end}; s:columns()", "its first s.columns[1]"},
        {"l:sum()", "tensor(l):sum()"},
        {"l(1)", "l[1] is its first"},
        {"x:zero_()", "A:fill_(0) sets all elements to 0"},
        {"plot(x, x, {xlim = {0, 5}})", "it is called \"xrange\" here"},
        {"plot(x, x, {xlog = true})", "xscale = \"log\""},
        {"plot(x, x, {color = 'red'})", "a curve gets its colour by itself"},
        {"plot{{y = x, marker = 'o'}}", "style is \"lines\", \"points\""},
        {"plot(x, x, {linewidth = 2})", "width = 3 is a line of 3 pixels"},
        {"vec(A)", "A:reshape(-1)"},
        {"minus(x, x)", "A - B is the difference"},
        {"pad(A, 2)", "cat(zeros(k, d), A, 1)"},
        {"meshgrid(x, x)", "x:reshape(1, n) + zeros(m, n)"},
        {"first(l)", "the first of a list is l[1]"},
        {"corr(x, x)", "dot(a, b) / (norm(a) * norm(b))"},
        {"erf(x)", "tanh(x * 1.12838 + pow(x, 3) * 0.1009)"},
        {"set_threads(2)", "it is called \"threads\" here"},
        {"rm('a.txt')", "os.remove(path)"},
    };
    for (const auto& [entry, help] : habits) {
        CAPTURE(entry);
        const std::string said = session(entry);
        CAPTURE(said);
        CHECK(said.starts_with("error: "));
        CHECK(contains(said, help));
    }
    CHECK(session("'x' * 2").find("tensor{") == std::string::npos);
    CHECK(session("A == zeros({size(A)}, eltype(A)) + A") == "true\n");
    CHECK(session("T = ones(5, 2); T:set(3, 1, 1); near = inv(T:t() * T) * (T:t() * (T * tensor{1, 2})); "
                  "isapprox(near, tensor{1, 2})") == "true\n");
    CHECK_FALSE(contains(session("norm(3)"), "with a colon"));
}

TEST_CASE("the library's own table and methods of tensors say what they are", "[lua][evaluate]") {
    Session session;
    CHECK(contains(session("causeway"), "? lists their topics"));
    CHECK(count(session("causeway"), "\n") <= 3);
    CHECK(session("randn(2).device") == "a method of tensors, called as A:device()\n");
    CHECK(session("mean") == "function mean, see ?mean\n");
    const auto noted = [](const std::string& entry) {
        return causeway::testing::run_program({"-e", "x, l = randn(2), {4, 5}", "-e", entry}).err;
    };
    CHECK(contains(noted("type(x)"), "eltype(x) is the type of its elements"));
    CHECK(contains(noted("d = {{gamma = 1}}; d[1].gama"), "d[1] has no \"gama\" (did you mean \"gamma\"?)"));
    CHECK(contains(noted("d = {lr = 1}; print(d.rate)"), "d has no \"rate\" but lr"));
    CHECK(contains(noted("d = {['a.q'] = 1}; d['a.k']"), "d has no \"a.k\" (did you mean \"a.q\"?)"));
    CHECK(noted("d = {['a.q'] = 1}; d['a.q']") == "");
    CHECK(noted("d = {lr = 1}; d.rate = d.rate or 2").empty());
    CHECK(contains(noted("s = 'abc'; s[1]"), "s:sub(1, 1)"));
    CHECK(noted("type(x) == 'userdata'") == "");
    CHECK(noted("type(l)") == "");
    CHECK(contains(noted("l[0]"), "l[1] is the first of l"));
    CHECK(noted("l[0] = 3; l[0]") == "");
    CHECK(contains(noted("x({2, 1})"), "{2, 1} is the empty range: backwards it is {range(2, 1, {step = -1})}"));
    CHECK(contains(noted("range(1, 3)({3, 2})"), "{range(3, 2, {step = -1})}"));
    CHECK(noted("x({1, 0}); f = function(t) return t[1] end; f({2, 1})") == "");
    session("f = function(t) return t^2 end");
    CHECK(contains(session("f\"x = {x}\""), "string.format("));
    CHECK_FALSE(contains(session("f\"x\""), "string.format("));
    // Of results too: how it is called, with its arguments.
    session(
        "r = sweep{grid = {N = {1, 2}}, run = function(p) return p.N end}; t = btime(function() end, {samples = 1})");
    CHECK(session("r.pivot") == "a method of results, called as results:pivot(down, across, value, filter)\n");
    CHECK(session("check_bound().latex") == "a method of a list of claims, called as x:latex(...)\n");
    CHECK(session("adam{{w = ones(2)}}.step") == "a method of an optimiser, called as opt:step(grads)\n");
    CHECK(session("0/0") == "NaN\n");
    CHECK(session("tostring(0/0), tostring(-(0/0)), tostring(1), tostring(1.0), tostring(-1/0)") ==
          "\"nan\"\n\"nan\"\n\"1\"\n\"1.0\"\n\"-inf\"\n");
    CHECK(session("string.format('%s %d', 2^53, 3)") == "\"9.007199254741e+15 3\"\n");
}

TEST_CASE("the lines of code that stand for names of other libraries hold", "[lua][evaluate][hints]") {
    Session session;
    session("x = range(-3, 3)");
    const std::pair<std::string, std::string> lines[] = {
        {"gelu", "x / 2 * (1 + tanh_(0.79788456 * (x + 0.044715 * x^3)))"},
        {"silu", "x / (1 + math.exp(-x))"},
        {"leaky_relu", "x > 0 and x or 0.01 * x"},
        {"relu6", "math.min(math.max(x, 0), 6)"},
        {"relu2", "math.max(x, 0)^2"},
        {"selu", "1.0507 * (x > 0 and x or 1.67326 * (math.exp(x) - 1))"},
        {"softplus", "math.log(1 + math.exp(x))"},
        {"mish", "x * tanh_(math.log(1 + math.exp(x)))"},
        {"hardtanh", "math.min(math.max(x, -1), 1)"},
        {"hardswish", "x * math.min(math.max(x + 3, 0), 6) / 6"},
    };
    session("tanh_ = function(x) return 1 - 2 / (math.exp(2 * x) + 1) end");
    for (const auto& [name, meant] : lines) {
        CAPTURE(name);
        // "gelu(x) is close to CODE; elu ..." or "the square of relu is CODE; ...", shown in quotes
        const std::string said = "causeway._elsewhere." + name + ".how";
        const std::string code = session(said + ":match(' close to (.-);') or " + said + ":match(' is (.-);')");
        CHECK(session("y = " + code.substr(1, code.size() - 3)) == "");
        const double allowed = name == "gelu" ? 0.03 : 1e-3;
        CHECK(session("maximum(abs(y - map(function(x) return " + meant + " end, x))) < " + std::to_string(allowed)) ==
              "true\n");
    }
}

TEST_CASE("the lines that stand for places, copies and shifts hold", "[lua][evaluate][hints]") {
    Session session;
    session("x = tensor{1, 4, 9, 16}; N = 4; k = 1; A = range(1, 6):reshape(3, 2); n = 3; d = 2; ids = tensor{3, 1}");
    CHECK(session("cat(x({N - k + 1, N}), x({1, N - k}), 1) == tensor{16, 1, 4, 9}") == "true\n");
    CHECK(session("x({2, N}) - x({1, N - 1}) == tensor{3, 5, 7}") == "true\n");
    CHECK(session("N = 3; A({range(N, 1, {step = -1})}) == tensor{{5, 6}, {3, 4}, {1, 2}}") == "true\n");
    session("k = 2; rows = (A:reshape(n, 1, d) + zeros(n, k, d)):reshape(n * k, d)");
    CHECK(session("maximum(abs(rows - tensor{{1, 2}, {1, 2}, {3, 4}, {3, 4}, {5, 6}, {5, 6}}))") == "0.0\n");
    CHECK(session("A({ids}) == tensor{{5, 6}, {1, 2}}") == "true\n");
    CHECK(session("A:reshape(-1) == range(1, 6)") == "true\n");
    CHECK(session("cat(zeros(k, d), A, 1) == tensor{{0, 0}, {0, 0}, {1, 2}, {3, 4}, {5, 6}}") == "true\n");
    CHECK(session("cat(tensor{{1}, {2}}, zeros(2, 1), 2) == tensor{{1, 0}, {2, 0}}") == "true\n");
    session("m, n = 2, 3; v, w = range(1, 3), range(1, 2)");
    CHECK(session("v:reshape(1, n) + zeros(m, n) == tensor{{1, 2, 3}, {1, 2, 3}}") == "true\n");
    CHECK(session("w:reshape(m, 1) + zeros(m, n) == tensor{{1, 1, 1}, {2, 2, 2}}") == "true\n");
    session("a = v - mean(v); b = tensor{2, 1, 6}; b = b - mean(b)");
    CHECK(session("math.abs(dot(a, b) / (norm(a) * norm(b)) - 0.755929) < 1e-6") == "true\n");
    session("z = tensor{-0.5, 0, 1, 2}");  // and the error function there
    CHECK(session("maximum(abs(tanh(z * 1.12838 + pow(z, 3) * 0.1009) - tensor{-0.5205, 0, 0.842701, 0.995322})) < "
                  "4e-4") == "true\n");
    CHECK(session("mask = gt(x, 3); range(1, #mask)(mask) == tensor{2, 3, 4}") == "true\n");
}

TEST_CASE("a note tells of a state that was not asked for", "[lua][evaluate]") {
    const auto said = [](const std::string& entry) {
        return causeway::testing::squeezed(causeway::testing::run_program({}, "q = ones(1, 2, 3, 4)\n" + entry).err);
    };
    const std::string note = "s is nil: causal_linear_attention returns its state with return_state = true";
    CHECK(contains(said("o, s = causal_linear_attention(q, q, q)"), note));
    CHECK(contains(said("s = 3; n, m = size(q); o, s = causal_linear_attention(q, q, q)"), note));
    CHECK(contains(said("o, s = causal_linear_attention(q, q, q)\ns"), "s is not defined (" + note + ")"));
    CHECK(said("o, s = causal_linear_attention(q, q, q, {return_state = true})") == "");
    CHECK(said("o, _ = causal_linear_attention(q, q, q)") == "");
    CHECK(said("o, s = linear_attention(q, q, q)") == "");
    CHECK(said("f = function() o, s = causal_linear_attention(q, q, q) end") == "");
}

TEST_CASE("matrices are printed below each other, numbers beside each other", "[lua][evaluate]") {
    const std::string out =
        causeway::testing::run_program({"-e", "x = ones(1, 2); print(x, x) print(1, nil, 'a') print() print(0/0)"}).out;
    CHECK(contains(out, "1.0  1.0\n1×2 Tensor"));
    CHECK(contains(out, "\n1\tnil\ta\n\nnan\n"));
}

TEST_CASE("a note tells the greater of two from the greatest along a dimension", "[lua][evaluate]") {
    const auto said = [](const std::string& code) {
        return causeway::testing::squeezed(
            causeway::testing::run_program({"-e", "A, x = ones(2, 3), ones(3);\n" + code}).err);
    };
    CHECK(count(said("max(A, 2); max(A, 2); max(A, -1);"), "along dimension 2 it is maximum(A, 2)") == 1);  // once
    CHECK(contains(said("min(A, -1);"), "note: min(A, -1) compares each element with -1; along dimension -1"));
    CHECK(said("max(A, 0); max(A, 3); max(A, 2.0); max(x, 1); max(A, A); maximum(A, 2); max(1, 2);") == "");
}

TEST_CASE("notes tell of a state that is dropped, and of a state that grows", "[lua][evaluate]") {
    const auto said = [](const std::string& code) {
        const std::string inputs =
            "q = randn(1, 1, 200, 8) * 3; S = zeros(1, 1, 8, 8); g = zeros(1, 1, 200); beta = ones(1, 1, 200);\n";
        return causeway::testing::squeezed(causeway::testing::run_program({"-e", inputs + code}).err);
    };
    const std::string dropped = "o, st = causal_linear_attention(q, q, q, {state = S});\n";
    CHECK(count(said(dropped + dropped), "return_state = true: o, st =") == 1);  // once
    CHECK(said("causal_linear_attention(q, q, q); causal_linear_attention(q, q, q, {state = S, return_state = true}); "
               "causal_linear_attention(q, q, q, {state = S, inplace = true});") == "");
    CHECK(contains(said("comba(q, q, q, {log_decay = g, beta = beta});"), "meant for keys of length 1, l2norm(k)"));
    CHECK(said("comba(q, l2norm(q), q, {log_decay = g, beta = beta});") == "");
    // Every entry says so, once.
    const std::string grows = "o = linear_attention(q, q, q, {update = 'delta', beta = beta}); ";
    CHECK(count(said(grows + grows + "\n" + grows), "meant for keys of length 1") == 2);
}

TEST_CASE("a list in Python's brackets, which is a text, is noted", "[lua][evaluate][hints]") {
    CHECK(has_list_in_long_brackets("A = [[1,2],[3,4]]"));
    CHECK(has_list_in_long_brackets("A = tensor([[1.5, -2e3], [3, 4]])"));
    CHECK(has_list_in_long_brackets("x = [[1, 2, 3]]"));
    CHECK_FALSE(has_list_in_long_brackets("A = 'a' .. [[a text, 3]]"));
    CHECK_FALSE(has_list_in_long_brackets("A = [=[1,2],[3,4]]=]"));
    CHECK_FALSE(has_list_in_long_brackets("A = {{1, 2}, {3, 4}}; A[B[1]]"));
    CHECK_FALSE(has_list_in_long_brackets("-- [[1,2],[3,4]]"));
    CHECK_FALSE(has_list_in_long_brackets("x = '[[1,2],[3,4]]'; n = [[12]]"));
    const auto output = causeway::testing::run_program({"-e", "A = [[1,2],[3,4]]; A"});
    CHECK(contains(output.err, "note: [[1,2],[3,4]] is a text in Lua; a tensor is tensor{{1, 2}, {3, 4}}\n"));
    CHECK(output.status == 0);
    CHECK(causeway::testing::run_program({"-e", "A = tensor{{1, 2}, {3, 4}}; A"}).err == "");
}

TEST_CASE("a script that ends with an expression is told that only the prompt shows values", "[lua][evaluate][hints]") {
    const causeway::testing::TemporaryFolder folder;
    const auto error_of = [&](const std::string& script) {
        causeway::testing::write_bytes(folder / "script.lua", script);
        const auto output = causeway::testing::run_in(folder, {"script.lua"});
        CHECK(output.status == 1);
        return output.err;
    };
    const std::string hint = "\nhint: only the prompt shows values: in a script, print(x) or display(x)\n";
    for (const std::string script : {"x = 3\nx + 1\n", "x = 3\nx", "x = 3\nx\nprint(x)\n",
                                     "x = 3\nx * 2 -- twice\nprint(x)", "3", "x = {1}\n{x}"}) {
        CAPTURE(script);
        CHECK(contains(error_of(script), hint));
    }
    CHECK(contains(error_of("for i = 1, 3 do\nx\nend"),
                   "hint: a value alone is no statement in a block: print(x) shows it"));
    for (const std::string script : {"x = 3\ny = = 1\n", "x = 3 +\n", "x y"}) {
        CAPTURE(script);
        CHECK_FALSE(contains(error_of(script), "hint"));
    }
}

TEST_CASE("a script is told that macros are for the prompt", "[lua][evaluate][hints]") {
    const std::string near = "script.lua:1: unexpected symbol near '@'";
    const std::string told = "hint: @time, @btime, @show, ?name and ;command are for the prompt and for -e";
    CHECK(syntax_hint("t = @btime f()", near) == told);
    CHECK(syntax_hint("@time f()", near) == told);
}

TEST_CASE("a script gets the same help", "[lua][evaluate][hints]") {
    const causeway::testing::TemporaryFolder folder;
    causeway::testing::write_bytes(folder / "script.lua", "local A = ones(2, 2)\n\nprint(A[1, 2])\n");
    const auto output = causeway::testing::run_in(folder, {"script.lua"});
    CHECK(output.status == 1);
    CHECK(output.err ==
          "error: script.lua:3: ']' expected near ','\n"
          "hint: a tensor is read as A(1, 2) or A({1, 3}, \":\") and set by A:set(x, 1, 2)\n");
}
