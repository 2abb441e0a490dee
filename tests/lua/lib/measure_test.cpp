// btime, time limits, statistics, tables and benchmark_method.
#include "tests/lua/shell.hpp"

#include "tests/catch.hpp"
#include "tests/lua/program.hpp"

using causeway::testing::Shell;

TEST_CASE("btime calls the function, keeps its counts and shows one line", "[lua][btime]") {
    Shell lua;
    CHECK(lua("local n = 0; local t = btime(function() n = n + 1; local e = clock() + 1e-3; while clock() < e do end "
              "end, {samples = 4, show = false}) return n, t.samples") == "5 4");
    CHECK(lua("local t = btime(function() local e = clock() + 1e-3; while clock() < e do end end, {samples = 3, show = "
              "false}) "
              "return t.minimum >= 1e-3 and t.minimum <= t.median and t.minimum <= t.mean and t.std >= 0") == "true");
    CHECK(lua("return tostring(btime(function() end, {samples = 3, show = false})):match('3 samples, 0 B extra')") ==
          "3 samples, 0 B extra");
}

TEST_CASE("btime measures peak memory beyond what was held", "[lua][btime]") {
    Shell lua;
    CHECK(lua("local kept = zeros(1000) local t = btime(function() local a = zeros(1024, 256) a = nil return zeros(16) "
              "end, {samples = 2, show = false}) "
              "return t.memory >= 2^20 and t.memory < 2^20 + 4096") == "true");
    // What only the first call needs is not that of a call.
    CHECK(lua("local made local t = btime(function() if not made then made = true local a = zeros(1024, 1024) end "
              "return zeros(16) end, {samples = 2, show = false}) "
              "return t.memory < 4096") == "true");
}

TEST_CASE("what cannot be timed is told at the user's line", "[lua][btime]") {
    Shell lua;
    const std::string at = "user:1: btime: f: ",
                      wanted = ", expected a function without arguments, as in btime(function() return f(x) end)";
    CHECK(lua("btime(3)") == at + "a number" + wanted);
    CHECK(lua("btime(ones(2))") == at + "a 2-element Tensor{Float32}" + wanted);
    CHECK(lua("btime(sum, ones(2))") == at + "arguments behind it" + wanted);
    CHECK(lua("\nbtime(print, {sample = 3})") ==
          "user:2: btime: unknown option \"sample\" (did you mean \"samples\"?)");
    CHECK(lua("btime(print, {samples = 0})") == "user:1: btime: samples: 0, expected at least 1");
    CHECK(lua("btime(function() error('mine', 0) end)") == "mine");
}

TEST_CASE("a time limit stops Lua and C++ loops, and is over afterwards", "[lua][timeout]") {
    Shell lua;
    CHECK(lua("causeway._with_timeout(0.02, function() while true do end end)").find("the time limit was reached") !=
          std::string::npos);
    CHECK(lua("causeway._with_timeout(0.02, function() while true do randn(64, 64):sum() end end)")
              .find("the time limit was reached") != std::string::npos);
    CHECK(lua("return causeway._with_timeout(60, function(a, b) return b, a end, 1, 2)") == "2 1");
    CHECK(lua("pcall(causeway._with_timeout, 0.01, function() while true do end end) local e = clock() + 0.03 while "
              "clock() < e do end return randn(4, 4):size(1)") == "4");
    // The nearer of two limits holds, and the outer one comes back after the inner one.
    CHECK(
        lua("causeway._with_timeout(0.02, function() causeway._with_timeout(60, function() while true do end end) end)")
            .find("the time limit was reached") != std::string::npos);
    CHECK(lua("causeway._with_timeout(0.05, function() pcall(causeway._with_timeout, 0.01, function() while true do "
              "end end) while true do end end)")
              .find("the time limit") != std::string::npos);
    CHECK(lua("causeway._with_timeout(0, print)") == "user:1: timeout: 0, expected a number of seconds above 0");
}

TEST_CASE("statistics and texts of numbers", "[lua][statistics]") {
    Shell lua;
    CHECK(lua("return summary({3, 1, 2})") == "2 ± 1 (median 2, from 1 to 3, 3 values)");
    CHECK(lua("return summary(ones(2, 2)).count") == "4");
    CHECK(lua("return math.abs(growth_exponent({1, 2, 4}, {3, 12, 48}) - 2) < 1e-12") == "true");
    CHECK(lua("growth_exponent({128, 128}, {1, 2})") ==
          "user:1: N: all values are 128, expected at least two different ones");
    CHECK(lua("growth_exponent({128}, {1})") == "user:1: N: 1 values, expected at least two different ones");
    CHECK(lua("growth_exponent({0, 0}, {1, 1})") == "user:1: N: 0, expected positive numbers");
    CHECK(lua("growth_exponent({1, 2}, {3})") == "user:1: time: 1 values, expected 2 like N");
    CHECK(lua("summary({1, 'a'})") == "user:1: values: item 2 is a string, expected a number");
    CHECK(lua("return number_text(0.0012345), number_text(12.3456), number_text(1234567.8), number_text(1.2e-7, 2), "
              "number_text(3), number_text(0.0), number_text(0/0), number_text(-1/0)") ==
          "0.001234 12.35 1234568 1.2e-7 3 0 NaN -Inf");
    CHECK(lua("threads(0)") == "user:1: threads: 0, expected a number from 1 to 1024");
    CHECK(lua("threads(1e300)") == "user:1: threads: 1e+300, expected a whole number of at most 9e15");
}

TEST_CASE("a table of results is aligned by characters and keeps OOM", "[lua][table]") {
    Shell lua;
    CHECK(lua("return text_table({{method = 'fleet', N = 8, time = 1.5}, {method = 'recür', N = 128, time = 'OOM'}}, "
              "{columns = {'method', 'N', {key = 'time', unit = 'ms'}}, note = 'n'})") ==
          " method    N  time (ms)\n"
          " ──────────────────────\n"
          " fleet     8      1.500\n"
          " recür   128        OOM\n"
          " n");
    CHECK(lua("t = text_table({N = {1, 2}, time = tensor{3, 4}}) return t:csv()") == "N,time\n1,3\n2,4\n");
    CHECK(lua("local sum = 0 for _, row in ipairs(t) do sum = sum + row.N end return t[2].N, #t, t[3], sum") ==
          "2 2 nil 3");
    // As load() gives them: the rows, and behind them the names of the columns.
    CHECK(lua("return text_table({{N = 1, time = 3, x = 5}}, {'time', 'N'}):csv()") == "time,N\n3,1\n");
    CHECK(lua("text_table({N = 1})").find("rows: N is a number, expected a list of rows") != std::string::npos);
    CHECK(lua("return text_table({{a = 1}}, {note = 'one\\ntwo'}):html()").find("<p>one<br>\ntwo</p>") !=
          std::string::npos);
    CHECK(lua("return text_table({{a = 'x<y', b = 'l\\ni'}}):html()").find("<td>x&lt;y</td><td>l i</td>") !=
          std::string::npos);
    CHECK(lua("return text_table({{a = 'x,\"y\"', b = 0.1}, {a = 1/3, b = 0/0}}):csv()") ==
          "a,b\n\"x,\"\"y\"\"\",0.1\n0.3333333333333333,NaN\n");
    CHECK(lua("return text_table({{a = ('word '):rep(20), b = ('ü'):rep(30), c = 1}}, {columns = {'a', 'b', 'c'}})") ==
          " a                                             b                               c\n"
          " ───────────────────────────────────────────────────────────────────────────────\n"
          " word word word word word word word word word  üüüüüüüüüüüüüüüüüüüüüüüüüüüüüü  1\n"
          " word word word word word word word word word\n"
          " word word");
    CHECK(lua("text_table({{a = 1}}, {leading = 0})") == "user:1: leading: 0, expected a whole number from 1 to 1000");
    CHECK(lua("text_table{a = {1, 2}, b = {3}}") ==
          "user:1: rows: a has 2 values and b 1, expected as many in every column");
    CHECK(lua("text_table{b = tensor({1, 2, 3}), a = {}}") ==
          "user:1: rows: a has 0 values and b 3, expected as many in every column");
    CHECK(lua("text_table{a = ones(2, 2)}") == "user:1: rows: a is a 2×2 Tensor{Float32}, expected a vector");
    CHECK(lua("text_table{a = {x = 1}}") == "user:1: rows: a has the key x, expected a list");
    CHECK(lua("t = text_table{a = {1, nil, 3}, b = {4, 5, 6}} return t.rows[3].a, t.rows[2].a, #t.rows") == "3 nil 3");
    CHECK(lua("text_table({{a = 1}}, {columns = {{key = 'a', digits = 1.5}}})") ==
          "user:1: columns: item 1: digits: 1.5, expected a whole number from 1 to 17");
    CHECK(lua("text_table({{a = 1}}, {columns = {{key = 'a', unit = {}}}})") ==
          "user:1: columns: item 1: unit: expected a text, got a table");
    CHECK(lua("text_table({{N = 1, time = 2}}, {'speed'})") ==
          "user:1: columns: no row has \"speed\", expected one of N, time");
    CHECK(
        lua("notes = {} local note = causeway._note causeway._note = function(text) notes[#notes + 1] = text end "
            "text_table({{N = 1, time = 2}}, {'N', 'tme'}) text_table({{N = 1, time = 2}}, {columns = {'N', {key = "
            "'itme'}}}) causeway._note = note return #notes, notes[1], notes[2]") ==
        "2 columns: no row has \"tme\" (did you mean \"time\"?) columns: no row has \"itme\" (did you mean \"time\"?)");
    CHECK(lua("notes = {} local note = causeway._note causeway._note = function(text) notes[#notes + 1] = text end "
              "text_table({{N = 1, mean = 2, maximum = 3, r = 4}}, {'N', 'median', 'minimum', 'd', 'mean'}) "
              "causeway._note = note return #notes") == "0");
    CHECK(lua("notes = {} local note = causeway._note causeway._note = function(text) notes[#notes + 1] = text end "
              "show_table({{N = 1, mean = 2}}, {'N', 'memory'}) causeway._note = note return #notes, notes[1]") ==
          "1 columns: no row has \"memory\" but N and mean");
    // One that rows may have stays empty where none of them does, and so do all of no rows.
    CHECK(lua("return text_table({{N = 1}}, {'N', 'message'}):csv(), text_table({}, {'N'}):csv()") ==
          "N,message\n1,\n N\n");
    CHECK(lua("text_table({1})") == "user:1: rows: item 1 is a number, expected a table");
    CHECK(lua("local rows = {} for i = 1, 100 do rows[i] = {i = i} end local text = tostring(text_table(rows, {most = "
              "4})) return #rows, select(2, text:gsub('\\n', ''))") == "100 6");
}

TEST_CASE("the numbers of a column have one unit and as many decimals", "[lua][table]") {
    Shell lua;
    CHECK(
        lua("return text_table({{t = 2.5e-5, m = 512}, {t = 1.25e-3, m = 3 << 20}, {t = 0.12, m = 5 << 20}, {t = 'OOM'"
            "}}, {columns = {{key = 't', unit = 'seconds'}, {key = 'm', unit = 'bytes'}}})") ==
        "  t (ms)  m (MiB)\n"
        " ────────────────\n"
        "   0.025     0.00\n"
        "   1.250     3.00\n"
        " 120.000     5.00\n"
        "     OOM");
    CHECK(lua("return text_table({{x = 0.5, n = 3}, {x = 12.25, n = 100}})") ==
          "   n        x\n"
          " ────────────\n"
          "   3   0.5000\n"
          " 100  12.2500");
    // What differs too much, or is no number, is written for itself.
    CHECK(lua("return text_table({{x = 1e-9}, {x = 0.5}, {x = 1e9}, {x = 0/0}, {x = 1/0}})") ==
          "        x\n ────────\n 1.000e-9\n   0.5000\n  1.000e9\n      NaN\n      Inf");
    CHECK(lua("return text_table({{t = 0}, {t = 0/0}}, {columns = {{key = 't', unit = 'seconds'}}})") ==
          " t (ns)\n ──────\n      0\n    NaN");
}

TEST_CASE("a table too wide for the terminal goes on below itself", "[lua][table]") {
    Shell lua;
    const std::string wide =
        "local row, columns = {N = 8, method = 'fleet'}, {'N', 'method'} for i = 1, 12 do row['value' .. i] = i * "
        "1111111 columns[#columns + 1] = 'value' .. i end t = text_table({row}, {columns = columns, leading = "
        "LEADING}) ";
    const auto with = [&](const char* leading) {
        std::string code = wide;
        return lua(code.replace(code.find("LEADING"), 7, leading) + "return t");
    };
    CHECK(with("2") ==
          " N  method   value1   value2   value3   value4   value5   value6\n"
          " ───────────────────────────────────────────────────────────────\n"
          " 8  fleet   1111111  2222222  3333333  4444444  5555555  6666666\n"
          "\n"
          " N  method   value7   value8   value9   value10   value11   value12\n"
          " ──────────────────────────────────────────────────────────────────\n"
          " 8  fleet   7777777  8888888  9999999  11111110  12222221  13333332");
    CHECK(with("1").find("\n\n N   ") != std::string::npos);
    // A word too long for any line is cut.
    CHECK(lua("return text_table({{a = ('x'):rep(70), b = ('y'):rep(50)}})") ==
          " a                                         b\n"
          " ───────────────────────────────────────────────────────────────────────────────\n"
          " xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\n"
          " xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx            yyyyyyyyyyyyy");
    // A title of several words goes over as many lines before anything else gives way.
    CHECK(lua("return text_table({{a = 1, b = ('word '):rep(13) .. 'end'}}, {columns = {{key = 'a', title = 'quite a "
              "long title'}, 'b'}})")
              .find("word word end") != std::string::npos);
    CHECK(lua("return text_table({{a = 1}}, {note = ('note '):rep(30), title = ('title '):rep(30)})").size() > 300);
}

TEST_CASE("a table as Markdown and as LaTeX", "[lua][table]") {
    Shell lua;
    lua("t = text_table({{name = 'a|b_c', time = 1.5e-3}, {name = '50% of <N>', time = 'OOM'}}, {title = 'N² & γ', "
        "note = "
        "'* fastest', columns = {'name', {key = 'time', unit = 'seconds'}}})");
    CHECK(lua("return t:markdown()") ==
          "**N² & γ**\n\n"
          "| name | time (ms) |\n"
          "| :--- | ---: |\n"
          "| a\\|b\\_c | 1.50 |\n"
          "| 50% of \\<N> | OOM |\n\n"
          "\\* fastest\n");
    CHECK(lua("return t:latex()") ==
          "\\begin{table}\n\\centering\n\\caption{N$^{2}$ \\& $\\gamma$}\n"
          "\\begin{tabular}{lr}\n"
          "  \\toprule\n"
          "  name & time (ms) \\\\\n"
          "  \\midrule\n"
          "  a$|$b$_{c}$ & 1.50 \\\\\n"
          "  50\\% of $<$N$>$ & OOM \\\\\n"
          "  \\bottomrule\n"
          "\\end{tabular}\n\n"
          "{\\small * fastest}\n"
          "\\end{table}\n");
    CHECK(lua("return text_table({{a = 'ε/‖Ã d\u0303‖ x~'}}, {note = 'one\\ntwo'}):latex()")
              .find("  $\\varepsilon$/$\\| \\tilde{A}$ $\\tilde{d} \\|$ x\\textasciitilde{} \\\\\n") !=
          std::string::npos);
    CHECK(lua("return text_table({{a = 1}}, {note = 'one\\ntwo'}):latex()").find("{\\small one \\newline\ntwo}") !=
          std::string::npos);
    CHECK(lua("return text_table({{a = '\\\\{$#~^}'}}):latex()")
              .find("  \\textbackslash{}\\{\\$\\#\\textasciitilde{}\\textasciicircum{}\\} \\\\\n") !=
          std::string::npos);
    // An index behind one symbol is a formula, the parts of a name are not.
    CHECK(lua("return text_table({{a = '‖Δ_i‖_F ≤ U_n d\u0303_i, relative_error b_ x_y_z'}}):latex()")
              .find("  $\\| \\Delta _{i} \\| _{F}$ $\\le$ U$_{n}$ $\\tilde{d} _{i}$, relative\\_error b\\_ "
                    "x\\_y\\_z \\\\\n") != std::string::npos);
    CHECK(lua("t:save(dir .. 'a.md'):save(dir .. 'a.tex')") == "");
    CHECK(lua.file("a.md") == lua("return t:markdown()"));
    CHECK(lua.file("a.tex") == lua("return t:latex()"));
    // Everything that shows itself as a table has them.
    for (const char* made :
         {"methods()", "lowrank_methods()",
          "benchmark_method('fleet', {lengths = {8}, heads = 1, rank = 2, repeats = 1, show = false})",
          "lowrank_error(ones(4, 2), ones(4, 2), ones(4, 2), ones(4, 2))",
          "sweep{grid = {N = {1, 2}}, run = function(p) return {x = p.N} end}"}) {
        CAPTURE(made);
        lua(std::string("made = ") + made);
        CHECK(lua("return made:markdown():find('| --', 1, true) ~= nil, made:latex():find('\\\\midrule', 1, true) ~= "
                  "nil") == "true true");
    }
}

TEST_CASE("a benchmark saved as .csv has its numbers, not the cells of its table", "[lua][benchmark]") {
    Shell lua;
    lua("benchmark_method('fleet', {lengths = {8, 16}, heads = 1, rank = 2, repeats = 2, show = false})"
        ":save(dir .. 'b.csv') rows = load(dir .. 'b.csv')");
    CHECK(lua("return #rows, rows[2].method, rows[2].N, math.type(rows[2].mean), rows[2].mean < 1") ==
          "2 fleet 16 float true");
}

TEST_CASE("the prompt shows a table that is made to be copied as it is", "[lua][table]") {
    const auto shown = [](const std::string& entry) {
        return causeway::testing::run_program({"-e", "s = text_table{{a = 1, b = 2}}; " + entry}).out;
    };
    CHECK(shown("s:markdown()") == "| a | b |\n| ---: | ---: |\n| 1 | 2 |\n");
    CHECK(shown("s:latex()").starts_with("\\begin{tabular}{rr}\n  \\toprule\n"));
    CHECK(shown("s:csv()") == "a,b\n1,2\n");
    CHECK(shown("t = s:markdown(); t, type(t)") == "| a | b |\n| ---: | ---: |\n| 1 | 2 |\n\"string\"\n");
    CHECK(shown("'a\\n'") == "\"a\\n\"\n");
}

TEST_CASE("benchmark_method checks before it times", "[lua][benchmark]") {
    Shell lua;
    CHECK(lua("local r = benchmark_method('fleet', {lengths = {4}, heads = 1, rank = 2, repeats = 1, seed = 7, show = "
              "false}) return r.origin.seed, r.origin.causeway == machine().causeway") == "7 true");
    CHECK(lua("local r = benchmark_method(function(B, C, V) return causal_linear_attention(B, C, V) * 1.5 end, "
              "{lengths = {16}, heads = 1, rank = 4, repeats = 2, show = false}) "
              "return r[1].status, r[1].mean, tostring(r):match('wrong: 0.50') ~= nil") == "wrong nil true");
    CHECK(lua("local r = benchmark_method('fleet', {lengths = {16, 33}, heads = 2, rank = 4, dim = 3, repeats = 2, "
              "decay = 0.9, normalize = true, methods = {'vanilla'}, show = false}) "
              "local t = {} for _, row in ipairs(r) do t[#t + 1] = row.method .. row.N .. row.status end return "
              "table.concat(t, ' ')") == "fleet16ok vanilla16ok fleet33ok vanilla33ok");
    CHECK(lua("local r = benchmark_method(function() while true do end end, {lengths = {8, 16}, heads = 1, rank = 2, "
              "repeats = 1, timeout = 0.02, show = false}) return r[1].status, r[2].status") == "timeout timeout");
    CHECK(lua("local r = benchmark_method(function() return zeros(1 << 24, 1 << 24) end, {lengths = {8}, heads = 1, "
              "rank = 2, repeats = 1, show = false}) return r[1].status") == "OOM");
    // Inputs, or the oracle, that do not fit are the cells of that length, not the end of the table.
    CHECK(lua("local r = benchmark_method('fleet', {lengths = {8, 1 << 40, 9}, heads = 1, rank = 2, repeats = 1, show "
              "= false}) return r[1].status, r[2].status, r[3].status, #r") == "ok OOM ok 3");
    CHECK(lua("local oracle = causeway.causal_oracle causeway.causal_oracle = function(B, ...) if size(B, 3) == 8 then "
              "return zeros(1 << 24, 1 << 24) end return oracle(B, ...) end "
              "local r = benchmark_method('fleet', {lengths = {8, 9}, heads = 1, rank = 2, repeats = 1, show = false}) "
              "causeway.causal_oracle = oracle return r[1].status, r[2].status") == "OOM ok");
    CHECK(lua("local r = benchmark_method(function() return nil end, {lengths = {8}, heads = 1, rank = 2, repeats = 1, "
              "show = false}) return r[1].status, r[1].message") ==
          "error user:1: the function returned nothing, expected a Tensor as its first result");
    CHECK(
        lua("local r = benchmark_method(function(B, C, V) return gelu(B * C:t()) * V end, {lengths = {8, 16}, "
            "repeats = 1, show = false}) local good, why = pcall(r.plot, r) local text = tostring(r):gsub('%s+', ' ') "
            "return text:find('(gelu(x) is close to times(x, ', 1, true) ~= nil, why") ==
        "true user:1: plot: no method has a time to draw (yours at N = 8: error, and so on), the benchmark's table "
        "has what each came to");
    CHECK(lua("register_method{name = 'mine', forward = function(B, C, V, o) return causal_linear_attention(B, C, V, "
              "{method = 'row-based', decay = o.decay}) end} "
              "return benchmark_method('mine', {lengths = {16}, heads = 1, rank = 4, repeats = 1, show = "
              "false})[1].status") == "ok");
    CHECK(lua("benchmark_method('fleet', {lengths = {8}, heads = 1, decay = 1.5})") ==
          "user:1: decay: 1.5, expected a number in (0, 1]");
    CHECK(lua("benchmark_method('fleat')") ==
          "user:1: benchmark_method: method: unknown name \"fleat\" (did you mean \"fleet\"?)");
    CHECK(lua("benchmark_method('fleet', {length = {8}})") ==
          "user:1: benchmark_method: unknown option \"length\" (it is called \"lengths\" here, see ?lengths)");
    CHECK(lua("benchmark_method('fleet', {lengths = {0}})") ==
          "user:1: benchmark_method: lengths: item 1 is 0, expected a whole number, at least 1");
}

TEST_CASE("a function that is measured gets the decay as a registered one does, one for each head",
          "[lua][benchmark]") {
    Shell lua;
    lua("got = {} function mine(B, C, V, o) got[#got + 1] = type(o.decay) == 'table' and #o.decay .. ' of ' .. "
        "o.decay[#o.decay] or tostring(o.decay) return causal_linear_attention(B, C, V, o) end "
        "function of(decay) got = {} local r = benchmark_method(mine, {lengths = {8}, heads = 2, rank = 2, repeats = "
        "1, "
        "decay = decay, reference = false, show = false}) return r[1].status .. ' ' .. got[1] end");
    CHECK(lua("return of(0.5)") == "ok 2 of 0.5");
    CHECK(lua("return of({0.9, 0.25})") == "ok 2 of 0.25");
    CHECK(lua("return of(ones(2) / 4)") == "ok 2 of 0.25");
    CHECK(lua("return of(nil)") == "ok nil");
    CHECK(lua("register_method{name = 'mine', forward = mine} got = {} "
              "benchmark_method('mine', {lengths = {8}, heads = 2, rank = 2, repeats = 1, decay = 0.5, show = false}) "
              "return got[#got]") == "2 of 0.5");
}

TEST_CASE("benchmark_method compares with what the rule is meant to give", "[lua][benchmark]") {
    Shell lua;
    lua("function twice(B, C, V, o) return causal_linear_attention(B, C, V, o) * 2 end "
        "function run(method, reference) return benchmark_method(method, {lengths = {16, 20}, heads = 2, rank = 4, "
        "repeats = 1, decay = 0.9, reference = reference, show = false}) end");
    // Beside the definition: wrong, and a sentence that says where, by how much and what to do.
    CHECK(lua("r = run(function(B, C, V, o) local O = causal_linear_attention(B, C, V, o) O:set(7, 1, 2, 3, 4) return "
              "O end) return r[1].status, r[1].place:match('^O%(1, 2, 3, 4%): 7, expected %-?[%d.]+$') ~= nil") ==
          "wrong true");
    const std::string text = lua("return (tostring(r):gsub('%s+', ' '))");
    CAPTURE(text);
    CHECK(
        text.find("yours disagrees with the Float64 definition of causal linear attention at N = 16: largest relative "
                  "error ") != std::string::npos);
    CHECK(text.find("at most 0.001 is right; first at O(1, 2, 3, 4): 7, expected ") != std::string::npos);
    CHECK(text.find("reference = function(B, C, V) ... end") != std::string::npos);
    CHECK(text.find("reference = false") != std::string::npos);
    // The lines below the table fit the terminal.
    CHECK(lua("local below = tostring(r):match('yours disagrees.*') local widest = 0 for line in "
              "below:gmatch('[^\\n]+') do widest = math.max(widest, utf8.len(line)) end return widest > 40 and widest "
              "<= 80") == "true");
    CHECK(lua("return run(function(B, C, V) return V * (0 / 0) end)[1].place:match('^O%(1, 1, 1, 1%): NaN') ~= nil") ==
          "true");
    // Beside a reference of its own, which gets Float64 and the options of the method.
    CHECK(lua("local types = {} local r = run(twice, function(B, C, V, o) types[1] = eltype(B) types[2] = o.decay[2] "
              "return causal_oracle(B, C, V, o) * 2 end) return r[1].status, r[2].status, r[1].error < 1e-3, types[1], "
              "types[2], tostring(r):find('largest error beside the reference given', 1, true) ~= nil, "
              "tostring(r):find('disagrees') == nil") == "ok ok true Float64 0.9 true true");
    CHECK(lua("local r = run('fleet', function(B, C, V) return V end) return r[1].status, "
              "tostring(r):find('fleet disagrees with the reference given', 1, true) ~= nil") == "wrong true");
    // Beside nothing.
    CHECK(lua("local r = run(twice, false) return r[1].status, r[1].error, r[1].mean > 0, "
              "tostring(r):find('not compared', 1, true) ~= nil") == "ok nil true true");
    CHECK(lua("run('fleet', 'fleet')") ==
          "user:1: benchmark_method: reference: expected a function(B, C, V, options) or false, got a string");
    CHECK(lua("run('fleet', function() return 3 end)") ==
          "user:1: benchmark_method: reference: returned a number, expected a Tensor like V");
    CHECK(lua("run('fleet', function(B, C, V) return V * (0 / 0) end)") ==
          "user:1: benchmark_method: reference: returned NaN or Inf, expected finite entries");
}

TEST_CASE("benchmark_method takes tensors of the user's", "[lua][benchmark]") {
    Shell lua;
    lua("q, k, v = randn(1, 2, 12, 4), randn(1, 2, 12, 4), randn(1, 2, 12, 3) "
        "function run(o) o.repeats, o.show = 1, false o.methods = o.methods or {'fleet', 'vanilla'} "
        "return benchmark_method(o) end");
    CHECK(lua("local seen = {} local function f(B, C, V, o) seen[size(V, 3)] = true "
              "if size(V, 3) == 12 then assert(B == q and C == k and V == v and o.decay[1] == 0.9) "
              "else assert(B == q(':', ':', {1, 5}, ':')) end return causal_linear_attention(B, C, V, o) end "
              "local r = run{inputs = {q, k, v}, lengths = {5, 12}, decay = 0.9, methods = {f}} "
              "return seen[5], seen[12], #r, r[1].N, r[1].status, r[2].status, r.origin.seed") ==
          "true true 2 5 ok ok nil");
    // On one length the table has the error and the memory of each method; the title says whose tensors they are.
    CHECK(lua("local r = run{inputs = {q, k, v}} local t = (tostring(r):gsub('%s+', ' ')) "
              "return r[1].N, r[2].error < 1e-5, t:find('method N = 12 error memory', 1, true) ~= nil, "
              "t:find('on the inputs given, batch 1, 2 heads, r = 4, d = 3, Float32', 1, true) ~= nil") ==
          "12 true true true");
    CHECK(lua("local r = run{inputs = {v = f64(v), q = f64(q), k = f64(k)}, reference = false} "
              "return r[1].status, tostring(r):find('Float64') ~= nil, tostring(r):find('error') == nil") ==
          "ok true true");
    CHECK(lua("return run{inputs = {q(1, 1, ':', ':'), k(1, 1, ':', ':'), v(1, 1, ':', ':')}}[1].status") == "ok");
    CHECK(lua("return run{inputs = {q, k, v}, methods = {function(B, C, V) return V end}}[1].status") == "wrong");
    const std::string at = "user:1: benchmark_method: ";
    CHECK(lua("run{inputs = q}") == at + "inputs: expected a list of three tensors, {q, k, v}, got a 1×2×12×4 "
                                         "Tensor{Float32}");
    CHECK(lua("run{inputs = {q, k}}") ==
          at + "inputs: v is nothing, expected a tensor on the CPU, [batch, heads, N, width]");
    CHECK(lua("run{inputs = {q, k, ones(1, 2, 9, 3)}}") ==
          at + "inputs: v is a 1×2×9×3 Tensor{Float32} and q a 1×2×12×4 Tensor{Float32}, expected as many tokens");
    CHECK(lua("run{inputs = {q, k, v}, heads = 3}") ==
          at + "heads: given beside inputs, whose tensors have their own; leave it out");
    CHECK(lua("run{inputs = {q, k, v}, lengths = {13}}") == at + "lengths: 13, but inputs have 12 tokens");
}

TEST_CASE("benchmark_method and causal_oracle take the other layout, and say where it looks like it",
          "[lua][benchmark]") {
    Shell lua;
    lua("q, k, v = randn(1, 12, 2, 4), randn(1, 12, 2, 4), randn(1, 12, 2, 3) "
        "function H(x) return permutedims(x, 1, 3, 2, 4) end "
        "function run(o) o.repeats, o.show = 1, false o.methods = o.methods or {'fleet', 'vanilla'} "
        "return benchmark_method(o) end");
    CHECK(lua("local seen = {} local function f(B, C, V, o) seen[size(V, 3)] = true "
              "assert(size(B, 2) == 2 and o.layout == nil) "
              "assert(size(B, 3) < 12 or B == H(q) and C == H(k) and V == H(v)) "
              "return causal_linear_attention(B, C, V, o) end "
              "local r = run{inputs = {q, k, v}, layout = 'bnhd', lengths = {5, 12}, methods = {'fleet', f}} "
              "return seen[5], seen[12], #r, r[1].status, r[4].status, (tostring(r):match('batch 1, 2 heads'))") ==
          "true true 4 ok ok batch 1, 2 heads");
    CHECK(lua("local r = run{inputs = {q(1), k(1), v(1)}, layout = 'bnhd'} return r[1].status, r[1].N") == "ok 12");
    CHECK(lua("return causal_oracle(q, k, v, {layout = 'bnhd', decay = 0.9}) == H(causal_oracle(H(q), H(k), H(v), "
              "{decay = 0.9}))") == "true");
    CHECK(lua("causal_oracle(q, k, v, {method = 'fleet'})") ==
          "user:1: causal_oracle: method: given, expected none: the oracle is the definition, by which methods are "
          "judged");
    CHECK(
        lua("return causal_oracle{q = q, k = k, v = v, layout = 'bnhd', decay = 0.9} == causal_oracle(q, k, v, {layout "
            "= 'bnhd', decay = 0.9})") == "true");
    CHECK(lua("causal_oracle{B = q, C = k, V = v, method = 'fleet'}")
              .starts_with("user:1: causal_oracle: method: given"));
    CHECK(lua("causal_oracle{q = q, k = k}") == "user:1: causal_oracle: V: expected a Tensor, got nothing");
    const std::string at = "user:1: benchmark_method: layout: ";
    CHECK(lua("run{layout = 'bnhd'}") ==
          at + "given without inputs, expected beside tensors of yours: inputs = {q, k, v}");
    CHECK(lua("run{inputs = {q, k, v}, layout = 'bthd'}") == at + "\"bthd\", expected \"bhnd\" or \"bnhd\"");
    // Many heads of few tokens.
    lua("notes = '' causeway._note = function(text) notes = notes .. text end x = randn(1, 200, 2, 3)");
    CHECK(
        lua("run{inputs = {x, x, x}} return notes").starts_with("benchmark_method: k is 1×200×2×3:\n200 heads of 2 "));
    CHECK(lua("notes = '' causal_oracle(x, x, x) return notes").find("layout = \"bnhd\"") != std::string::npos);
    CHECK(lua("notes = '' run{inputs = {x, x, x}, layout = 'bnhd'} run{inputs = {x, x, x}, layout = 'bhnd'} "
              "return notes") == "");
}

TEST_CASE("relative_error names the argument that is no tensor", "[lua][benchmark]") {
    Shell lua;
    CHECK(lua("return relative_error(ones(2) * 3, ones(2) * 2)") == "0.5");
    CHECK(lua("relative_error(ones(2), nil)") == "user:1: relative_error: reference: expected a Tensor, got nothing");
    CHECK(lua("relative_error(ones(2), io.stdout)") ==
          "user:1: relative_error: reference: expected a Tensor, got a userdata");
    CHECK(lua("measured_call(3)") == "user:1: measured_call: expected a function and its arguments, got a number");
    CHECK(lua("bytes_text(0/0)") == "user:1: bytes_text: NaN, expected a finite number");
    CHECK(lua("number_text(1e300, -3)") == "user:1: number_text: digits: -3, expected a whole number from 1 to 17");
    CHECK(lua("plot({1, 2}, io.stdout)") == "user:1: plot: the curve: y: expected numbers, got a userdata");
    CHECK(lua("relative_error(3, ones(2))") == "user:1: relative_error: A: expected a Tensor, got a number");
    CHECK(lua("relative_error(ones(2), {1, 1})") ==
          "user:1: relative_error: reference: expected a Tensor, got a table");
}

TEST_CASE("benchmark_method knows methods by leet's names, and rules made by recurrence", "[lua][benchmark]") {
    causeway::testing::Shell lua;
    const std::string options = "{lengths = {8}, heads = 1, rank = 2, repeats = 1, show = false";
    CHECK(lua("return benchmark_method('LA', " + options + "})[1].method") == "lightning-attention-2");
    CHECK(lua("b = benchmark_method(" + options +
              ", methods = {'FA_torch', 'Cdotp'}}) return b[1].method, b[2].method, "
              "b[2].status") == "fleet-untiled causal-dot-product ok");
    CHECK(lua("benchmark_method('la', " + options + "})")
              .ends_with("unknown name \"la\" (it is called \"lightning-attention-2\" here, in leet \"LA\")"));
    lua("rule = recurrence{name = 'mine', a = function(x) return sigmoid(x.k) end}");
    CHECK(lua("b = benchmark_method(rule, " + options + "}) return b[1].method, b[1].status, b[1].error, b.compared") ==
          "mine ok nil nil");
    CHECK(lua("b = benchmark_method(rule, " + options +
              ", reference = function(q, k, v) return (rule(q, k, v)) end}) "
              "return b[1].status, b[1].error < 1e-6") == "ok true");
    CHECK(lua("b = benchmark_method(" + options + ", methods = {fading = rule}}) return b[1].method") == "fading");
    CHECK(lua("other = recurrence{a = function(x) return x.f end} b = benchmark_method(other, " + options +
              "}) return b[1].message")
              .find("x.f is not given") != std::string::npos);

    const std::string where = "; tensors of yours are inputs: benchmark_method{inputs = {q, k, v}}";
    lua("q = randn(1, 1, 9, 4)");
    CHECK(lua("benchmark_method(q, q, q)").ends_with(where));
    CHECK(lua("benchmark_method{q, q, q}").ends_with(where));

    CHECK(lua("register_method(rule)") ==
          "user:1: register_method: a rule alone, expected a name beside it: "
          "register_method{name = \"mine\", forward = rule}");
    lua("register_method{name = 'faded', forward = rule} q = randn(1, 2, 9, 4)");
    CHECK(lua("return causal_linear_attention(q, q, q, {method = 'faded'}) == (rule(q, q, q))") == "true");
    CHECK(lua("return causal_linear_attention(q, q, q, {method = 'faded', decay = 0.9})").find("decay = false") !=
          std::string::npos);
}

TEST_CASE("a function is called in the table what its user says", "[lua][benchmark]") {
    Shell lua;
    lua("function f(B, C, V, o) return causal_linear_attention(B, C, V, o) end "
        "function names(method, options) options.lengths, options.heads, options.rank = {16}, 1, 2 "
        "options.repeats, options.show = 1, false local list = {} "
        "for i, row in ipairs(benchmark_method(method, options)) do list[i] = row.method .. ':' .. row.status end "
        "return table.concat(list, ' ') end");
    CHECK(lua("return names(f, {})") == "yours:ok");
    CHECK(lua("return names(f, {name = 'mine', methods = {'fleet', f}})") == "mine:ok fleet:ok");
    CHECK(lua("return names(nil, {methods = {'vanilla', b = f, a = function(...) return f(...) end}})") ==
          "vanilla:ok a:ok b:ok");
    CHECK(lua("return tostring(benchmark_method(f, {name = 'mine', lengths = {16}, heads = 1, rank = 2, repeats = 1, "
              "show = false})):find('\\n mine ') ~= nil") == "true");
    const std::string at = "user:1: benchmark_method: ";
    CHECK(lua("benchmark_method(f, {name = 3})") ==
          at + "name: a number, expected what the function is called in the table");
    CHECK(lua("benchmark_method(f, {name = ''})") ==
          at + "name: an empty text, expected what the function is called in the table");
    CHECK(lua("benchmark_method('fleet', {name = 'mine'})") ==
          at + "name: \"mine\" for the method \"fleet\", which has a name; expected one for a function");
    CHECK(lua("benchmark_method(nil, {name = 'mine'})") == at + "name: given, but no function that it is the name of");
    CHECK(lua("benchmark_method(f, {name = 'fleet', methods = {'fleet'}})") ==
          at + "name: two methods are called \"fleet\" in one table");
    CHECK(lua("benchmark_method(nil, {methods = {a = 3}})") ==
          at + "method: expected a name or a function(B, C, V, options), got a number");
}

TEST_CASE("benchmark_method repeats slow calls less often, and says how often", "[lua][benchmark]") {
    Shell lua;
    lua("function of(f, more) local o = {lengths = {4}, heads = 1, rank = 2, reference = false, show = false} "
        "for name, x in pairs(more or {}) do o[name] = x end return benchmark_method(f, o) end "
        "quick, slow = function(B, C, V) return V end, function(B, C, V) local t = clock() + 0.4 repeat until clock() "
        "> t return V end");
    CHECK(lua("b = of(quick) return b[1].repeats, b.title:match('mean ± std of [^;]*')") == "15 mean ± std of 15");
    CHECK(lua("b = of(slow) return b[1].repeats, b.title:match('mean ± std of [^;]*')") == "3 mean ± std of 3");
    CHECK(
        lua("b = of(slow, {methods = {quick = quick}}) return b[1].repeats, b[2].repeats, b.title:match('of [^;]*')") ==
        "3 15 of 3 to 15");
    CHECK(lua("return of(slow, {repeats = 4})[1].repeats, of(quick, {repeats = 20})[1].repeats") == "4 20");
    CHECK(lua("b = of(function() error('no') end) return b[1].status, b.title:match('mean ± std(.-);')") == "error ");
}

TEST_CASE("benchmark_method measures all methods at lengths that take seconds, one method at longer ones too",
          "[lua][benchmark]") {
    Shell lua;
    const std::string options = "heads = 1, rank = 1, repeats = 1, show = false, reference = false";
    CHECK(lua("return table.concat(benchmark_method{" + options + "}.lengths, ' ')") == "128 512 2048");
    CHECK(lua("return table.concat(benchmark_method('fleet', {" + options + "}).lengths, ' ')") == "128 512 2048 8192");
    CHECK(lua("return table.concat(benchmark_method{methods = {'fleet'}, " + options + "}.lengths, ' ')") ==
          "128 512 2048 8192");
}

TEST_CASE("benchmark_update shows updates and modes beside each other, each right before it is timed",
          "[lua][benchmark]") {
    Shell lua;
    const std::string small = "lengths = {5, 70}, heads = 2, rank = 4, dim = 3, repeats = 2, show = false";
    lua("function rows(b) local list = {} for i, row in ipairs(b) do list[i] = row.update .. '/' .. row.mode .. '/' .. "
        "row.N .. '/' .. row.status end return table.concat(list, ' ') end");
    CHECK(lua("b = benchmark_update{" + small + "} return #b, rows(b)")
              .starts_with("24 linear/recurrent/5/ok linear/chunkwise/5/ok linear/parallel/5/ok gated/recurrent/5/ok"));
    CHECK(lua("local worst = 0 for _, row in ipairs(b) do worst = math.max(worst, row.error) end return worst > 0 and "
              "worst < 1e-5, b[1].method, b.origin.seed") == "true linear, recurrent 1");
    CHECK(lua("return rows(benchmark_update('gated_delta', {gate = 'channel', chunk = 16, modes = {'chunkwise'}, " +
              small + "}))") == "gated_delta/chunkwise/5/ok gated_delta/chunkwise/70/ok");
    CHECK(
        lua("return rows(benchmark_update{updates = {'delta', 'linear'}, modes = {'recurrent'}, dtype = 'BFloat16', " +
            small + "})") == "delta/recurrent/5/ok linear/recurrent/5/ok delta/recurrent/70/ok linear/recurrent/70/ok");
    const std::string table = lua("return (tostring(benchmark_update('delta', {" + small + "})):gsub('%s+', ' '))");
    for (const char* part : {" update mode ", "N = 70", " delta chunkwise ", "a gate per head", "* fastest"}) {
        CAPTURE(part, table);
        CHECK(table.find(part) != std::string::npos);
    }
    // One that gives something else has an error and no time.
    CHECK(lua("local own = causeway.linear_attention causeway.linear_attention = function(q, k, v, o) local O, S = "
              "own(q, k, v, o) if o.mode == 'parallel' then O = O * 1.5 end return O, S end "
              "b = benchmark_update('delta', {" +
              small + "}) causeway.linear_attention = own return rows(b), b[3].mean") ==
          "delta/recurrent/5/ok delta/chunkwise/5/ok delta/parallel/5/wrong delta/recurrent/70/ok "
          "delta/chunkwise/70/ok delta/parallel/70/wrong nil");
    CHECK(lua("return tostring(b):gsub('%s+', ' '):find('delta, parallel disagrees with the recurrence in Float64 at N "
              "= 5: largest "
              "relative error 0.50', 1, true) ~= nil") == "true");
    CHECK(lua("return #b:plot():text() > 0, b:markdown():find('| delta ', 1, true) ~= nil") == "true true");
}

TEST_CASE("benchmark_update takes tensors of the user's, of either layout", "[lua][benchmark]") {
    Shell lua;
    lua("seed(2) q, k, v = randn(1, 4, 12, 3), l2norm(randn(1, 2, 12, 3)), randn(1, 2, 12, 5) "
        "g, beta = -rand(1, 2, 12), rand(1, 2, 12) "
        "function run(o) o.repeats, o.show = 1, false b = benchmark_update(o) local list = {} "
        "for i, row in ipairs(b) do list[i] = row.update .. '/' .. row.status end return table.concat(list, ' ') end");
    CHECK(lua("return run{inputs = {q, k, v}, modes = 'chunkwise'}") == "linear/ok");
    CHECK(lua("return run{inputs = {q = q, k = k, v = v, beta = beta}, modes = 'chunkwise'}") == "linear/ok delta/ok");
    CHECK(lua("return run{inputs = {q, k, v, log_decay = g, beta = beta}, modes = 'recurrent', lengths = {3, 12}}") ==
          "linear/ok gated/ok delta/ok gated_delta/ok linear/ok gated/ok delta/ok gated_delta/ok");
    CHECK(lua("return b.title:match('on the inputs given.*')") ==
          "on the inputs given, batch 1, 2 heads, r = 3, d = 5, Float32, with their own gates");
    lua("function t(x) return permutedims(x, 1, 3, 2, 4) end function t3(x) return permutedims(x, 1, 3, 2) end");
    CHECK(lua("return run{inputs = {t(q), t(k), t(v), log_decay = t3(g), beta = t3(beta)}, layout = 'bnhd', modes = "
              "'parallel', lengths = {3, 12}}")
              .ends_with("linear/ok gated/ok delta/ok gated_delta/ok"));
    CHECK(lua("return b.lengths[2], b.title:match('batch 1, 2 heads, r = 3, d = 5') ~= nil") == "12 true");
    CHECK(lua("return run{inputs = {q(1), k(1), v(1), beta = 0.5}, modes = 'chunkwise'}") == "linear/ok delta/ok");

    const std::string at = "user:1: benchmark_update: ";
    CHECK(lua("benchmark_update('delta', {inputs = {q, k, v}})") ==
          at + "inputs: \"delta\" takes beta too: inputs = {q, k, v, beta = beta}");
    CHECK(lua("benchmark_update{inputs = {q, k, v}, beta = beta}") ==
          at + "beta: given beside inputs, expected among them: inputs = {q, k, v, beta = beta}");
    CHECK(lua("benchmark_update('gated', {inputs = {q, k, v}, log_decay = g})") ==
          at + "log_decay: given beside inputs, expected among them: inputs = {q, k, v, log_decay = log_decay}");
    CHECK(lua("benchmark_update{inputs = {q, k}}") ==
          at + "inputs: v is nothing, expected a tensor on the CPU, [batch, heads, N, width]");
    CHECK(lua("benchmark_update{inputs = {q, k, v(':', ':', {1, 5}, ':')}}") ==
          at + "inputs: q is a 1×4×12×3 Tensor{Float32} and v a 1×2×5×5 Tensor{Float32}, expected as many tokens");
    CHECK(lua("benchmark_update{inputs = {q, k, v, beta = rand(1, 2, 11)}}") ==
          at + "inputs: beta is a 1×2×11 Tensor{Float32} and v a 1×2×12×5 Tensor{Float32}, expected as many tokens");
    CHECK(lua("benchmark_update{inputs = {q, k, v}, rank = 3}") ==
          at + "rank: given beside inputs, whose tensors have their own; leave it out");
    CHECK(lua("benchmark_update(q, k, v)")
              .ends_with("tensors of yours are inputs: benchmark_update{inputs = {q, k, v, "
                         "log_decay = g, beta = beta}}"));
    CHECK(lua("benchmark_update('fleet')") == at + "update: \"fleet\" is a method of causal linear attention: "
                                                   "benchmark_method(\"fleet\") times it");
    CHECK(lua("benchmark_method('gated_delta')") ==
          "user:1: benchmark_method: method: \"gated_delta\" is an update of linear_attention: "
          "benchmark_update(\"gated_delta\") times it");
    CHECK(lua("benchmark_update('gated_dalta')") ==
          at + "update: unknown name \"gated_dalta\" (did you mean \"gated_delta\"?)");
    CHECK(lua("benchmark_update{modes = {'chunk'}}") ==
          at + "modes: unknown name \"chunk\" (did you mean \"chunkwise\"?)");
    CHECK(lua("benchmark_update{updates = {}}") == at + "updates: expected names such as {\"gated_delta\"}, got none");
    CHECK(
        lua("benchmark_update(recurrence{})").ends_with("a rule of yours is timed by benchmark_method(rule, options)"));
}

TEST_CASE("a table of results writes itself to a file", "[lua][table]") {
    Shell lua;
    CHECK(lua("t = text_table({{N = 1, name = 'a,b'}}) return t:save(dir .. 'a.csv'):save(dir .. 'a.html'):save(dir .. "
              "'a.txt') == t") == "true");
    CHECK(lua.file("a.csv") == "N,name\n1,\"a,b\"\n");
    CHECK(lua.file("a.html").find("<table>") != std::string::npos);
    CHECK(lua.file("a.txt") == lua("return t:text()") + "\n");
    // A name that would part the cells of the first line is one again.
    CHECK(lua("text_table({{['a;b'] = 'c;d'}}):save(dir .. 'one.csv') return load(dir .. 'one.csv')[1]['a;b']") ==
          "c;d");
    CHECK(lua("t:save('a.pdf')") ==
          "user:1: save: a.pdf, expected a file name that ends in .csv, .html, .md, .tex or .txt");
    CHECK(lua("t:save()") == "user:1: save: nil, expected a file name that ends in .csv, .html, .md, .tex or .txt");
}

TEST_CASE("one measured call returns its result, its time and the memory beyond both", "[lua][measure]") {
    Shell lua;
    CHECK(lua("local A, seconds, bytes = measured_call(function(n) local B = ones(1024, 256) return B(1, 1) and "
              "zeros(n) end, 16) return A:size(1), seconds > 0, bytes >= 2^20 and bytes < 2^20 + 4096") ==
          "16 true true");
}
