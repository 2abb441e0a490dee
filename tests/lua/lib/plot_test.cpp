// Pictures: what is drawn, as text, SVG, PNG and PDF, and what is refused.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/catch.hpp"
#include "tests/lua/program.hpp"
#include "tests/lua/shell.hpp"
#include "tests/lua/width.hpp"

using causeway::testing::contains;
using causeway::testing::Shell;
using causeway::testing::too_wide;

namespace {}  // namespace

TEST_CASE("a plot is text, SVG, PNG and PDF", "[lua][plot]") {
    Shell lua;
    CHECK(contains(lua("return plot({1, 4, 9}, {title = 'Squares', xlabel = 'n', ylabel = 'n times n'})"), "Squares"));
    CHECK(contains(lua("return plot({1, 4, 9}, {ylabel = 'n times n'})"), " n times n\n"));
    CHECK(contains(lua("return getmetatable(plot({1})).__rich(plot({1, 4})).svg"), "<svg"));
    CHECK(
        lua("local p = plot({1, 4, 9}) return p:save(dir .. 'a.svg'):save(dir .. 'a.PNG'):save(dir .. 'a.pdf') == p") ==
        "true");
    CHECK(contains(lua.file("a.svg"), "</svg>"));
    CHECK(contains(lua.file("a.PNG").substr(0, 4), "PNG"));
    CHECK(lua.file("a.pdf").substr(0, 4) == "%PDF");
    CHECK(lua("plot({1, 2}, {save = dir .. 'b.svg'})") == "");
    CHECK(contains(lua.file("b.svg"), "<svg"));
}

TEST_CASE("a style in MATLAB's form, and a second table of curves, are told what is to be typed", "[lua][plot]") {
    Shell lua;
    CHECK(lua("plot({1, 2}, {3, 4}, 'r--')") ==
          "user:1: plot: \"r--\", expected numbers or a table of options: plot(x, y, {style = \"dashed\", label = "
          "\"a\"})");
    CHECK(
        lua("plot({x = {1, 2}, y = {1, 2}}, {x = {1, 2}, y = {2, 1}})") ==
        "user:1: plot: a second argument behind a table of curves, expected one table: plot{{x = x, y = y}, {x = x, y "
        "= z}, title = \"T\"}");
}

TEST_CASE("every way to give the numbers draws the same curve", "[lua][plot]") {
    Shell lua;
    const std::string expected = lua("return plot({1, 2, 3}, {2, 4, 8})");
    CHECK(contains(expected, "●"));
    for (const char* call :
         {"plot(f64{1, 2, 3}, f32{2, 4, 8})", "plot{{x = {1, 2, 3}, y = {2, 4, 8}}}",
          "plot{x = {1, 2, 3}, y = {2, 4, 8}}", "plot{2, 4, 8}", "plot({2, 4, 8})", "plot{{{1, 2, 3}, {2, 4, 8}}}"}) {
        CAPTURE(call);
        CHECK(lua(std::string("return ") + call) == expected);
    }
    CHECK(lua("return plot{2, 4, 9}") != expected);
}

TEST_CASE("sixteen curves look different, each from every other", "[lua][plot]") {
    Shell lua;
    CHECK(lua("local seen, n = {}, 0 "
              "for _, style in ipairs{'lines', 'dashed', 'linespoints'} do "
              "  local curves = {} for i = 1, 16 do curves[i] = {y = {i, i + 1}, style = style} end "
              "  for look in plot(curves).script('svg'):match('plot (.*)'):gmatch('with [^,\\n]+') do "
              "    if seen[look] then return look end seen[look] = true n = n + 1 end "
              "end return n") == "48");
}

TEST_CASE("text of the user is text, whatever it holds", "[lua][plot]") {
    Shell lua;
    const std::string hostile = R"(it's `touch BAD` "q" $x @y \n %s a_b^{c} <&> é)";
    const std::string call =
        "local t = [==[" + hostile +
        "]==] return plot{{y = {1, 2}, label = t}, {y = {2, 1}, label = t}, title = t, xlabel = t, ylabel = t}";
    CHECK(contains(lua(call), hostile));
    CHECK(contains(lua(call + ":svg()"), "it's `touch BAD` \"q\" $x @y \\n %s a_b^{c} &lt;&amp;> é"));
    CHECK_FALSE(std::filesystem::exists("BAD"));
    CHECK(contains(lua("return plot({1, 2}, {title = 'two\\nlines\\0zero'})"), "two lines zero"));
    CHECK(contains(lua("return plot({1, 2}, {title = 'not \\xff utf8'})"), "not ? utf8"));
}

TEST_CASE("show shows a picture or a table in the middle of a script", "[lua][plot]") {
    Shell lua;
    lua("shown = {} causeway.display = function(x) shown[#shown + 1] = x end");
    CHECK(lua("p = plot{1, 2} t = text_table{{a = 1}} return p:show(), t:show(), heatmap(ones(2, 2)):show(), "
              "check_bound():show(), #shown, shown[1] == p, shown[2] == t") == "nil nil nil nil 4 true true");
}

TEST_CASE("points that cannot be drawn are left out", "[lua][plot]") {
    Shell lua;
    CHECK(contains(lua("return plot({1, 0/0, 1/0, 4})"), "●"));
    CHECK(contains(lua("return plot({0, 1, -2, 10, 100}, {yscale = 'log'})"), "100"));
    CHECK(contains(lua("return plot({5})"), "●"));
    CHECK(contains(lua("return plot({5, 5, 5}, {yscale = 'log', xscale = 'log'})"), "●"));
    CHECK(lua("plot(ones(2, 3))") ==
          "user:1: plot: the curve: y: shape 2×3, expected one dimension, such as A(1); heatmap draws a matrix");
    CHECK(contains(lua("return plot(range(1, 5):reshape(1, 5, 1))"), "●"));
    CHECK(lua("plot({0/0})") == "user:1: plot: there is no point to draw, expected at least one finite number");
    CHECK(lua("plot({})") == "user:1: plot: there is no point to draw, expected at least one finite number");
    CHECK(lua("plot({-1, 0}, {yscale = 'log'})") ==
          "user:1: plot: there is no point to draw, expected at least one finite (on a log axis positive) number");
    CHECK(lua("return plot({1, 2}, {error = {0/0, 5}, yscale = 'log'}):svg() ~= nil") == "true");
    // Of those that a log axis has no place for a note tells how many.
    lua("notes = {} causeway._note = function(text) notes[#notes + 1] = text end");
    CHECK(lua("plot({0, 1, -2, 10, 0/0}, {yscale = 'log'}) return #notes, notes[1]") ==
          "1 plot: 2 of 4 points are left out: zero or negative, on a log axis");
    CHECK(lua("plot{{x = {0, 1}, y = {1, 1}}, {x = {1, 2}, y = {3, 4}}, xscale = 'log'} return #notes, notes[2]") ==
          "2 plot: 1 of 4 points is left out: zero or negative, on a log axis");
    CHECK(lua("plot({0, 1, -2, 0/0}) plot({1, 2, 0/0}, {yscale = 'log'}) return #notes") == "2");
    CHECK(lua("return #plot(randn(100000)):svg() < 2000000") == "true");
    CHECK(lua("return plot({1e-300, 1e300}, {yscale = 'log'}):svg() ~= nil") == "true");
}

TEST_CASE("a log axis of lengths is marked at powers of two", "[lua][plot]") {
    Shell lua;
    const std::string text = lua("return plot({128, 512, 2048, 8192}, {1, 2, 3, 4}, {xscale = 'log'})");
    for (const char* mark : {"128", "512", "2048", "8192"}) CHECK(contains(text, mark));
    CHECK(contains(lua("return plot({1, 2, 3}, {1e-6, 1e-3, 1}, {yscale = 'log'})"), "10⁻⁶"));
    CHECK(contains(lua("return plot({1, 2, 3}, {0.01, 1, 300}, {yscale = 'log'})"), "0.01"));
}

TEST_CASE("panels have titles, axes and curves of their own and one legend", "[lua][plot]") {
    Shell lua;
    const std::string call =
        "plot{panels = {{{x = {1, 2, 4}, y = {1, 10, 100}, label = 'fleet'}, {x = {1, 2, 4}, y = {2, 4, 8}, label = "
        "'leet'}, title = 'first', yscale = 'log'}, {{x = {1, 2}, y = {3, 5}, label = 'leet'}, title = 'second'}, "
        "{{1, 2, 3}, title = 'third', xscale = 'linear'}}, columns = 2, xscale = 'log', xlabel = 'N', title = 'all'}";
    CHECK(lua("local p = " + call + " return p:save(dir .. 'a.svg'):save(dir .. 'a.png'):save(dir .. 'a.pdf') == p") ==
          "true");
    CHECK(contains(lua.file("a.png").substr(0, 4), "PNG"));
    CHECK(lua.file("a.pdf").substr(0, 4) == "%PDF");
    const std::string svg = lua.file("a.svg"), text = lua("return " + call);
    const auto count = [&](const std::string& part) {
        int n = 0;
        for (auto at = svg.find(part); at != std::string::npos; at = svg.find(part, at + 1)) ++n;
        return n;
    };
    for (const char* once :
         {">all</text>", ">first</text>", ">second</text>", ">third</text>", ">fleet</text>", ">leet</text>"}) {
        CAPTURE(once);
        CHECK(count(once) == 1);
    }
    CHECK(count(">N</text>") == 3);
    std::size_t after = 0;
    for (const char* part : {"all", "first", "fleet", "second", "third"}) {
        CAPTURE(part, text);
        const std::size_t at = text.find(part, after);
        CHECK(at != std::string::npos);
        after = at;
    }
    // The same label has the same colour in every panel.
    const std::string script = lua("return " + call + ".script('svg')");
    const auto first = script.find("using 1:2 notitle", script.find("title 'first'"));
    const auto second = script.find("using 1:2 notitle", script.find("title 'second'"));
    CHECK(contains(script.substr(first, script.find('\n', first) - first), "#d55e00"));
    CHECK(contains(script.substr(second, script.find('\n', second) - second), "#d55e00"));
}

TEST_CASE("the legend of panels has room for all its rows", "[lua][plot]") {
    Shell lua;
    // gnuplot makes more columns, cut off at the picture's edges, where the rows that it is told do not fit.
    lua("local names = {} for i, m in ipairs(lowrank_method_list()) do names[i] = {y = {i, i + 1}, label = m.name} end "
        "p = {panels = {names, {table.unpack(names)}}, columns = 1, size = {720, 900}}");
    for (const char* size : {"nil", "10", "18"}) {
        CAPTURE(size);
        CHECK(lua(std::string("p.font_size = ") + size +
                  " local figure, columns, n = plot(p), {}, 0 "
                  "local rows = tonumber(figure.script():match('maxrows (%d+)')) "
                  "for x in figure:svg():gmatch('translate%(([%d.]+),[^<]-text%-anchor=\"start\">') do "
                  "  if not columns[x] then columns[x], n = true, n + 1 end end "
                  "return n == math.ceil(13 / rows)") == "true");
    }
}

TEST_CASE("marks on an axis and the ends of error bars are where they are told to be", "[lua][plot]") {
    Shell lua;
    const std::string svg = lua("return plot({1, 2, 3}, {xticks = {1.25, 2.75}, yticks = {3, 1}}):svg()");
    for (const char* mark : {">1.25<", ">2.75<"}) CHECK(contains(svg, mark));
    CHECK_FALSE(contains(svg, ">2.5<"));
    CHECK(contains(lua("return plot{{y = {2, 3}, error = {from = {1, 2.5}, to = {4, 0/0}}}}.script('svg')"),
                   "1 2 1 4\n2 3 2.5 3\n"));
    CHECK(lua("plot{{y = {2, 3}, error = {from = {1}, to = {4, 5}}}}") ==
          "user:1: plot: the curve: error.from has 1 values, expected 2 like y");
    // Marks that would run into one another are turned.
    CHECK(contains(lua("return plot({16, 17, 256}, {1, 2, 3}, {xscale = 'log', xticks = {16, 17, 256}}).script('svg')"),
                   "rotate"));
}

TEST_CASE("what is wrong with panels is told in a sentence", "[lua][plot]") {
    Shell lua;
    CHECK(lua("plot{panels = 3}") ==
          "user:1: plot: panels: expected a list of panels such as {{{x = ..., y = ...}, title = ...}, ...}");
    CHECK(lua("plot{panels = {{{1, 2}}, {{x = {1}, y = {1, 2}}}}}") ==
          "user:1: plot: panel 2: the curve: y has 2 values, expected 1 like x");
    CHECK(lua("plot{panels = {{{1, 2}, titel = 'a'}}}") ==
          "user:1: plot: panel 1: unknown option \"titel\" (did you mean \"title\"?)");
    CHECK(lua("plot{panels = {{{0/0}}}}") ==
          "user:1: plot: panel 1: there is no point to draw, expected at least one finite number");
    CHECK(lua("plot{panels = {{{1, 2}}}, columns = 0}") ==
          "user:1: plot: columns: 0, expected a whole number of at least 1");
    CHECK(lua("plot{{1, 2}, panels = {{{1, 2}}}}") ==
          "user:1: plot: curves stand in the panels where there are such, expected none beside them");
    CHECK(lua("plot({1, 2}, {columns = 2})") == "user:1: plot: columns: expected together with panels only");
}

TEST_CASE("rows of a file or of a table are drawn by the names of two columns", "[lua][plot]") {
    Shell lua;
    lua("rows = {{N = 1, t = 2, m = 'a'}, {N = 2, t = 5, m = 'a'}, {N = 1, t = 3, m = 'b'}, {N = 2, t = 4, m = 'b'}}");
    CHECK(lua("a = plot{{x = {1, 2}, y = {2, 5}, label = 'a'}, {x = {1, 2}, y = {3, 4}, label = 'b'}, xlabel = 'N', "
              "ylabel = 't'} return tostring(plot(rows, 'N', 't', {by = 'm'})) == tostring(a)") == "true");
    CHECK(lua("return tostring(text_table(rows):plot('N', 't', {by = 'm'})) == tostring(a)") == "true");
    CHECK(lua("plot(rows)") ==
          "user:1: plot: rows without the names of two columns, expected two of the columns N, m, t, as in "
          "plot(rows, \"N\", \"m\", {by = ...})");
    CHECK(lua("plot(rows, 'N', 'q')") ==
          "user:1: plot: no row has \"q\", expected two of the columns N, m, t, as in plot(rows, \"N\", \"m\", {by = "
          "...})");
    CHECK(lua("show_table(rows, {text = true})") ==
          "user:1: show_table: unknown option \"text\" (text_table(rows):text() gives it)");
}

TEST_CASE("what plot does not understand is told in a sentence", "[lua][plot]") {
    Shell lua;
    CHECK(lua("plot()") ==
          "user:1: plot: expected numbers or rows to draw, got nothing; the rows of a file are drawn by plot(rows, "
          "\"x\", \"y\")");
    CHECK(lua("plot({1, 2}, {style = 3})") ==
          "user:1: plot: style: a number, expected \"lines\", \"points\", \"linespoints\" or \"dashed\"");
    CHECK(lua("plot({1, 2}, {xscale = 'lin'})") == "user:1: plot: xscale: \"lin\", expected \"linear\" or \"log\"");
    CHECK(lua("heatmap(ones(2, 2), {scale = 'lin'})") ==
          "user:1: heatmap: scale: \"lin\", expected \"linear\" or \"log\"");
    CHECK(lua("plot('x')") == "user:1: plot: expected a list of numbers, a Tensor or a table of curves, got a string");
    CHECK(lua("plot({1, 2}, {1, 2, 3})") == "user:1: plot: the curve: y has 3 values, expected 2 like x");
    CHECK(lua("plot{{x = {1}, y = {1}}, {x = {1, 2}, y = {1}}}") ==
          "user:1: plot: curve 2: y has 1 values, expected 2 like x");
    CHECK(lua("plot({1, 'a'})") == "user:1: y: item 2 is a string, expected a number");
    CHECK(lua("plot({1}, {tittle = 'a'})") == "user:1: plot: unknown option \"tittle\" (did you mean \"title\"?)");
    CHECK(lua("plot({1}, {style = 'dots'})") ==
          "user:1: plot: style: \"dots\", expected \"lines\", \"points\", \"linespoints\" or \"dashed\"");
    CHECK(lua("plot({1}, {xscale = 'ln'})") == "user:1: plot: xscale: \"ln\", expected \"linear\" or \"log\"");
    CHECK(lua("plot({1}, {xrange = {2, 1}})") == "user:1: plot: xrange: expected {from, to} with from < to");
    CHECK(lua("plot({1}, {save = 'a.gif'})") ==
          "user:1: save: \"a.gif\", expected a name that ends in .svg, .png or .pdf");
    CHECK(lua("plot({1}, {size = {1, 1}})") ==
          "user:1: size: expected {width, height} in pixels, each from 50 to 8000");
    CHECK(lua("plot{{label = 'a'}}") == "user:1: plot: the curve: no y given, expected {x = ..., y = ...}");
}

TEST_CASE("without gnuplot one sentence says how to get it, and the terminal's pictures are there", "[lua][plot]") {
    Shell lua;
    const std::string path = std::getenv("PATH");
    setenv("PATH", lua.path("").c_str(), 1);
    const std::string answer = lua("local svg = plot({1, 2}):svg() return svg");
    const std::string text = lua("return plot({1, 2})"), page = lua("return report{plot({1, 2}), 'end'}");
    const std::string shown = lua("display(plot({1, 2})) return 'shown'");
    setenv("PATH", path.c_str(), 1);
    CHECK(shown == "shown");
    CHECK(answer == "user:1: gnuplot, which draws the pictures, is not installed: apt-get install gnuplot-nox");
    CHECK(contains(text, "●"));
    CHECK(contains(page, "●"));
    CHECK(contains(page, "<figcaption>gnuplot, which draws the pictures, is not installed"));
}

TEST_CASE("names stand at the ends of their curves, each on a row of its own", "[lua][plot]") {
    Shell lua;
    // The four that end together are moved apart, the one far above stays there.
    CHECK(lua("local curves = {} for i = 1, 5 do "
              "  curves[i] = {x = {1, 2}, y = {i, i < 5 and 1 or 100}, label = 'curve ' .. i} end "
              "local rows, at, n = {}, {}, 0 "
              "for line in (tostring(plot(curves)) .. '\\n'):gmatch('(.-)\\n') do "
              "  n = n + 1 local name = line:match('curve %d$') "
              "  if name then rows[#rows + 1], at[name] = name, n end end "
              "return #rows, rows[1], at['curve 4'] - at['curve 1'], at['curve 1'] - at['curve 5'] > 8") ==
          "5 curve 5 3 true");
    // Where there is room, a name stands in the row of its curve's end.
    for (int high = 10; high < 40; ++high) {
        CAPTURE(high);
        const std::string both = lua("return plot{{y = {1, 2}, label = 'low'}, {y = {1, " + std::to_string(high) +
                                     "}, label = 'high'}, yrange = {-30, 40}}");
        CHECK(contains(both, "■   ■ high\n"));
    }
    // Names that want one row are in the order of the ends.
    const std::string close = lua(
        "return plot{{y = {0, 1}, label = 'low'}, {y = {100, 1.5}, label = 'high'}, {y = {0, 0.5}, label = 'least'}}");
    CHECK(close.find(" high\n") < close.find(" low\n"));
    CHECK(close.find(" low\n") < close.find(" least\n"));
    // A name too long for its place is cut there and told in full below.
    const std::string text =
        lua("return plot{{y = {1, 2}, label = ('long '):rep(9) .. 'name'}, {y = {2, 1}, label = 'b'}}");
    CHECK(contains(text, "…\n"));
    CHECK(contains(text, "\n ● long long long long long long long long long name"));
    CHECK(lua("return (tostring(plot{{y = {1, 2}, label = 'a b c'}, {y = {2, 1}}, legend = false}):find('a b c'))") ==
          "nil");
}

TEST_CASE("the label of a single curve is drawn, unless the legend is switched off", "[lua][plot]") {
    causeway::testing::Shell lua;
    CHECK(lua("return plot({1, 2}, {3, 4}, {label = 'squares'})").find("squares") != std::string::npos);
    CHECK(lua("return plot({1, 2}, {3, 4}, {label = 'squares', legend = false})").find("squares") == std::string::npos);
}

TEST_CASE("of more than six curves the lowest six are in colour", "[lua][plot]") {
    Shell lua;
    const std::string curves =
        "local curves = {best = best} for i = 1, 9 do "
        "curves[i] = {x = {1, 2}, y = {1, i == 3 and 0/0 or i}, label = 'curve ' .. i} end ";
    const std::string plain = lua(curves + "return plot(curves)");
    CHECK(contains(plain, "with marks: the 6 that end lowest; dotted: the other 3"));
    for (const char* name : {"· curve 3\n", "· curve 8\n", "· curve 9\n"}) CHECK(contains(plain, name));
    CHECK_FALSE(contains(plain, "· curve 7\n"));
    lua("causeway._colour = function() return true end");
    const std::string coloured = lua(curves + "return plot(curves)");
    CHECK(contains(coloured, "in colour: the 6 that end lowest; grey: the other 3"));
    for (const char* name : {"curve 3\x1b[39m\n", "curve 8\x1b[39m\n", "curve 9\x1b[39m\n"}) {
        const auto at = coloured.find(name);
        REQUIRE(at != std::string::npos);
        CHECK(contains(coloured.substr(at - 20, 20), "38;5;244m"));
    }
    const auto at = coloured.find("curve 7\x1b");
    REQUIRE(at != std::string::npos);
    CHECK_FALSE(contains(coloured.substr(at - 20, 20), "38;5;244m"));
    lua("best = 'highest'");
    CHECK(contains(lua(curves + "return plot(curves)"), "in colour: the 6 that end highest"));
    CHECK(lua("plot({1}, {best = 'first'})") == "user:1: plot: best: \"first\", expected \"highest\" or \"lowest\"");
}

TEST_CASE("without colours no two curves have the same mark", "[lua][plot]") {
    Shell lua;
    // outer-product and causal-dot-product have one mark in files, where colours tell them apart.
    CHECK(lua("local seen, n = {}, 0 local curves = {} "
              "for i, name in ipairs{'outer-product', 'causal-dot-product', 'a', 'b', 'c', 'd'} do "
              "  curves[i] = {y = {i, i + 1}, label = name, style = i > 3 and 'dashed' or nil} end "
              "for line in tostring(plot(curves)):gmatch('[^\\n]+') do "
              "  local mark = line:match(' ([^ ]+) [%a-]+$') "
              "  if mark and line:find('[│┤]') then if seen[mark] then return mark end seen[mark] = true n = n + 1 end "
              "end return n") == "6");
}

TEST_CASE("a plot keeps to the terminal, however narrow", "[lua][plot]") {
    Shell lua;
    for (const int columns : {20, 30, 45, 60, 80, 120}) {
        lua("causeway.terminal_size = function() return " + std::to_string(columns) + ", 24 end");
        for (const char* colour : {"false", "true"}) {
            lua(std::string("causeway._colour = function() return ") + colour + " end");
            for (const char* call :
                 {"plot{{y = {1, 2}, label = 'lightning-attention-2'}, {y = {2, 1e5}, label = 'b'}, title = 'A title', "
                  "xlabel = 'a label for x', ylabel = 'seconds'}",
                  "plot(randn(300), {ylabel = ('y'):rep(70)})",
                  "plot{panels = {{{1, 2}, title = ('t '):rep(90)}, {{2, 1}}}}",
                  "heatmap(randn(30, 90), {title = 'T', xlabel = 'x', ylabel = 'y'})"}) {
                CAPTURE(columns, colour, call);
                if (columns < 30 && call[0] == 'h') continue;  // no room for the numbers of its legend
                const std::string text = lua(std::string("return ") + call);
                CHECK(std::count(text.begin(), text.end(), '\n') >= 6);
                CHECK(too_wide(text, columns) == "");
            }
        }
    }
}

TEST_CASE("numbers at the ends of what a number can be are drawn", "[lua][plot]") {
    Shell lua;
    for (const char* call :
         {"plot({-1.7e308, 1.7e308})", "plot({5e-324, 1e-323})", "plot({1e17, 1e17 + 16})", "plot({0, 5e-324})",
          "plot({1e-300, 1e300}, {yscale = 'log', ylabel = 'seconds'})",
          "plot({1, 2}, {xrange = {1e300, 1.1e300}, yrange = {-1, 1}})", "plot({1, 2}, {yrange = {0, 5e-324}})",
          "plot({-1e308, 1e308}, {yrange = {0, 1}})", "plot({1, 2}, {xticks = {1e308, -1e308}})",
          "plot({0, 0}, {ylabel = 'bytes'})", "heatmap(f64{{-1.7e308, 1.7e308}})"}) {
        CAPTURE(call);
        CHECK(contains(lua(std::string("return ") + call), "└"));
    }
}

TEST_CASE("x is marked at the plotted points", "[lua][plot]") {
    Shell lua;
    const std::string text = lua("return plot({128, 512, 2048}, {1, 2, 3}, {xscale = 'log'})");
    for (const char* mark : {" 128 ", " 512 ", " 2048"}) CHECK(contains(text, mark));
    for (const char* mark : {"256", "1024"}) CHECK_FALSE(contains(text, mark));
    CHECK(contains(lua("return plot({3, 7, 11}, {1, 2, 3}):svg()"), ">7<"));
    // Many points, and such without a short name, get round numbers.
    CHECK(contains(lua("return plot(range(1, 500))"), " 200 "));
    CHECK(contains(lua("return plot({1/3, 2/3, 1}, {1, 2, 3})"), "0.4"));
}

TEST_CASE("what is called seconds or bytes is shown in the unit that fits", "[lua][plot]") {
    Shell lua;
    const std::string text = lua("return plot({2, 4}, {0.002, 0.004}, {ylabel = 'seconds'})");
    CHECK(contains(text, " ms\n"));
    CHECK(contains(text, "4.0┤"));
    CHECK_FALSE(contains(text, "seconds"));
    const auto label = [&](const std::string& options) {
        return lua("return plot({2, 4}, {2^21, 2^22}, {" + options + "}).script():match('set ylabel ([^\\n]*)')");
    };
    CHECK(label("ylabel = 'peak memory (bytes)'") == "'peak memory (MiB)' noenhanced");
    CHECK(label("ylabel = 'memory', yunit = 'bytes'") == "'memory (MiB)' noenhanced");
    CHECK(label("yunit = 'bytes'") == "'MiB' noenhanced");
    CHECK(label("ylabel = 'bytes a token'") == "'bytes a token' noenhanced");
    CHECK(label("ylabel = 'milliseconds'") == "'milliseconds' noenhanced");
    // Ranges, marks and bars are in the same unit.
    const std::string script = lua(
        "return plot{{y = {3 * 2^20, 5 * 2^20}, error = {2^20, 2^20}}, ylabel = 'bytes', yrange = {0, 2^23}, yticks = "
        "{2^22}}.script()");
    CHECK(contains(script, "set ylabel 'MiB'"));
    CHECK(contains(script, "set yrange [0:8]"));
    CHECK(contains(script, "set ytics ('4' 4)"));
    CHECK(contains(script, "\n2 5 4 6"));
    CHECK(lua("plot({1}, {yunit = 'hours'})") == "user:1: plot: yunit: \"hours\", expected \"bytes\" or \"seconds\"");
}

TEST_CASE("formulas stand between dollar signs", "[lua][plot]") {
    Shell lua;
    const auto plain = [&](const std::string& label) { return lua("return (causeway._label([==[" + label + "]==]))"); };
    CHECK(plain("time $O(N \\log N)$, $r^2$") == "time O(N log N), r²");
    CHECK(plain("$\\alpha_{ij}^{-1} \\le \\gamma x$") == "αᵢⱼ⁻¹ ≤ γx");
    CHECK(plain("$\\frac{1}{\\sqrt{d_k}}$ and $e^{Q}$, $B C^\\top$") == "1/√dₖ and e^Q, B Cᵀ");
    for (const char* text : {"costs $5 and $6", "$ x $", "$a{b$", "$a}b$", "$x^$", "a_b^{c}", "\\alpha", "$", "$$"}) {
        CAPTURE(text);
        CHECK(plain(text) == text);
        CHECK(lua("return (select(2, causeway._label([==[" + std::string(text) + "]==])))") == "nil");
    }
    CHECK(plain("$\\unknown x$") == "\\unknown x");
    CHECK(lua("return #causeway._label('$' .. ('{'):rep(100000) .. '$')") == "100002");
    CHECK(lua("return #causeway._label('$' .. ('\\\\frac '):rep(100000) .. '$') > 1") == "true");
    const std::string svg = lua("return plot({1, 2}, {title = '$N^2 \\\\alpha$ a_b'}):svg()");
    CHECK(contains(svg, "<title>N² α a_b</title>"));
    CHECK(contains(svg, ">2</tspan>"));
    CHECK(contains(svg, "α a_b"));
    // What a formula holds is text too.
    const std::string hostile = R"($x'; system("touch BAD"); `touch BAD` @N^{/Bold=90 y} &{z} ~a{b} \n \\ #$)";
    CHECK(contains(lua("return plot{{y = {1, 2}, label = [==[" + hostile +
                       "]==]}, {y = {2, 1}, label = 'b'}, title = [==[" + hostile + "]==]}:svg()"),
                   "touch BAD"));
    CHECK_FALSE(std::filesystem::exists("BAD"));
}

TEST_CASE("a method has one colour and one mark in every figure", "[lua][plot]") {
    Shell lua;
    // The looks of a list of labels, in this order and backwards, must agree; a method that the table of looks does not
    // have would get another one.
    lua("function looks(names) "
        "  local curves = {} for i, name in ipairs(names) do curves[i] = {y = {1, 2}, label = name} end "
        "  local found = {} "
        "  for name, look in plot(curves).script():gmatch(\"title '([^']*)' noenhanced with ([^,\\n]*)\") do "
        "    found[name] = look end return found end "
        "function same(names) "
        "  local back, seen = {}, {} for i, name in ipairs(names) do table.insert(back, 1, name) end "
        "  local a, b = looks(names), looks(back) "
        "  for _, name in ipairs(names) do "
        "    if not a[name] or a[name] ~= b[name] then return name .. ' is not in the table' end "
        "    if seen[a[name]] then return name .. ' looks like ' .. seen[a[name]] end seen[a[name]] = name end "
        "  return #names > 1 end");
    CHECK(lua("local names = {} for i, m in ipairs(method_list()) do names[i] = m.name end return same(names)") ==
          "true");
    CHECK(lua("local names = {} for i, m in ipairs(lowrank_method_list()) do names[i] = m.name end "
              "return same(names)") == "true");
    CHECK(lua("return same{'linear', 'gated', 'delta', 'gated_delta'}, same{'flash', 'standard'}, same{'tree', "
              "'ring'}") == "true true true");
    CHECK(lua("return same{'one', 'two'}") == "one is not in the table");
    // A label that begins with the name of a method is that method's.
    CHECK(lua("return looks{'a', 'svd ↓'}['svd ↓'] == looks{'svd', 'b'}['svd']") == "true");
}

TEST_CASE("the spread is bars or a band", "[lua][plot]") {
    Shell lua;
    const std::string bars = lua("return plot{{y = {1, 2}, error = {0.5, 0.5}}}.script()");
    CHECK(contains(bars, "with yerrorbars"));
    for (const char* call : {"plot{{y = {1, 2}, error = {0.5, 0.5}}, spread = 'band'}",
                             "plot{{y = {1, 2}, error = {0.5, 0.5}, spread = 'band'}}",
                             "plot({1, 2}, {error = {0.5, 0.5}, spread = 'band'})"}) {
        CAPTURE(call);
        const std::string band = lua(std::string("return ") + call + ".script()");
        CHECK(contains(band, "using 1:3:4 notitle with filledcurves"));
        CHECK_FALSE(contains(band, "yerrorbars"));
        CHECK(contains(lua(std::string("return ") + call + ":svg()"), "</svg>"));
    }
    CHECK(lua("plot({1, 2}, {spread = 'box'})") == "user:1: plot: spread: \"box\", expected \"band\" or \"bars\"");
    CHECK(contains(lua("local c = {} for i = 1, 5 do c[i] = {y = {i, i}, error = {1, 1}} end return plot(c)"),
                   "the spread stands in files only"));
}

TEST_CASE("the font of a file is chosen, and is a name only", "[lua][plot]") {
    Shell lua;
    const std::string svg = lua("return plot({1, 2}, {font = 'DejaVu Serif', font_size = 20, title = 'T'}):svg()");
    CHECK(contains(svg, "font-family=\"DejaVu Serif\" font-size=\"20.00\""));
    CHECK(lua("return plot({1, 2}, {font = 'Serif'}):save(dir .. 'f.png'):save(dir .. 'f.pdf') ~= nil") == "true");
    CHECK(lua("return heatmap(ones(2, 2), {font_size = 9}):svg():find('font%-size=\"9.00\"') ~= nil") == "true");
    CHECK(lua("plot({1}, {font = \"a' ; system 'touch BAD'\"})") ==
          "user:1: font: expected a name of letters, digits, blanks and hyphens, got \"a' ; system 'touch BAD'\"");
    CHECK(lua("plot({1}, {font_size = 0/0})").find("expected pixels, from 4 to 100") != std::string::npos);
}

TEST_CASE("an SVG follows the page's choice of light and dark", "[lua][plot]") {
    Shell lua;
    for (const char* call : {"plot{{y = {1, 2}, label = 'fleet', error = {1, 1}}, {y = {2, 1}, label = 'b'}}",
                             "heatmap(randn(3, 3))", "plot{panels = {{{1, 2}}, {{2, 1}}}, title = 'T'}"}) {
        CAPTURE(call);
        const std::string svg = lua(std::string("return ") + call + ":svg()");
        CHECK(contains(svg, "@media (prefers-color-scheme:dark)"));
        CHECK(contains(svg, "class=\"paper\""));
        CHECK_FALSE(contains(svg, "fill=\"#ffffff\""));
        CHECK_FALSE(contains(svg, "stroke='rgb("));
    }
}

TEST_CASE("a matrix as a heatmap", "[lua][heatmap]") {
    Shell lua;
    CHECK(lua("return heatmap(f64{{0, 1}, {1, 0}}, {title = 'swap'})") ==
          "  swap\n"
          "  ┌────┐\n"
          "  │  ██│\n"
          "  │██  │\n"
          "  └────┘\n"
          "  0   ░░▒▒▓▓██ 1");
    CHECK(contains(lua("return heatmap(randn(1, 1, 700, 30)):svg()"), "<svg"));
    CHECK(contains(lua("return heatmap(zeros(3, 3)):svg()"), "<svg"));
    CHECK(contains(lua("return heatmap(f64{{1, 0/0}, {0, 1/0}}, {scale = 'log'})"),
                   "\n  ??: not positive, or not finite"));
    CHECK(contains(lua("return heatmap(f64{{1, 0/0}, {0, 1}})"), "\n  ??: NaN or infinite"));
    CHECK(lua("heatmap(3)") == "user:1: A: expected a Tensor, got a number");
    CHECK(lua("heatmap(zeros(2, 3, 4))") == "user:1: A: 2×3×4 Tensor{Float32}, expected one matrix, such as A(1, 1)");
    CHECK(lua("heatmap(zeros(0, 4))") == "user:1: A: 0×4 Tensor{Float32}, expected at least one element");
    CHECK(lua("heatmap(zeros(2, 2), {scale = 'log'})") ==
          "user:1: heatmap: A has no finite positive element, expected at least one");
}

TEST_CASE("a heat map with values of both signs goes apart from 0", "[lua][heatmap]") {
    Shell lua;
    CHECK(lua("return heatmap(f64{{-2, 0}, {1, 0.5}})") ==
          "  ┌────┐\n"
          "  │##  │\n"
          "  │▒▒░░│\n"
          "  └────┘\n"
          "  -2 ##==--··  ░░▒▒▓▓██ 2");
    const std::string both = lua("return heatmap(f64{{-2, 0}, {1, 0.5}}).script()");
    CHECK(contains(both, "set cbrange [-2:2]"));
    CHECK(contains(both, "5 '#f7f7f7'"));
    CHECK(contains(lua("return heatmap(f64{{0, 3}, {1, 0.5}}).script()"), "set cbrange [0:3]"));
    CHECK(contains(lua("return heatmap(f64{{-1, -3}, {-2, -2}}).script()"), "set cbrange [-3:-1]"));
    CHECK(contains(lua("return heatmap(f64{{-1, 100}, {10, 1}}, {scale = 'log'}).script()"), "set cbrange [0:2]"));
    // In colours: as strong below as above, and light at 0.
    lua("causeway._colour = function() return true end");
    const std::string coloured = lua("return heatmap(f64{{-2, 0, 2}})");
    for (const char* ink : {"48;5;17m", "48;5;255m", "48;5;52m"}) CHECK(contains(coloured, ink));
    CHECK(contains(lua("return heatmap(ones(100, 200), {xlabel = 'j', ylabel = 'i'})"), "of 100×200"));
}

TEST_CASE("a curve that is like another has its colour and its mark", "[lua][plot]") {
    Shell lua;
    lua("function looks(like) "
        "  local curves = {{y = {1, 2}, label = 'a', style = 'points'}, {y = {2, 3}, label = 'b', style = 'points'}, "
        "    {y = {3, 4}, label = 'b printed', style = 'points', like = like}} "
        "  local found = {} "
        "  for name, look in plot(curves).script():gmatch(\"title '([^']*)' noenhanced with ([^,\\n]*)\") do "
        "    found[name] = look end return found end");
    CHECK(lua("local f = looks('b') return f['b printed'] == f.b, f.a == f.b") == "true false");
    CHECK(lua("local f = looks() return f['b printed'] == f.b") == "false");
    CHECK(lua("local f = looks('none') return f['b printed'] == f.a or f['b printed'] == f.b") == "false");
    CHECK(contains(lua("looks(3)"), "plot: like: expected the label of another curve, got a number"));
}
