// Pictures: what is drawn, as text, SVG, PNG and PDF, and what is refused.
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::Shell;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

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
    CHECK(lua("plot({1, 2}, {save = dir .. 'b.svg'})").find("Figure") != 0);
    CHECK(contains(lua.file("b.svg"), "<svg"));
}

TEST_CASE("every way to give the numbers draws the same curve", "[lua][plot]") {
    Shell lua;
    const std::string expected = lua("return plot({1, 2, 3}, {2, 4, 8})");
    CHECK(contains(expected, "A"));
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

TEST_CASE("points that cannot be drawn are left out", "[lua][plot]") {
    Shell lua;
    CHECK(contains(lua("return plot({1, 0/0, 1/0, 4})"), "A"));
    CHECK(contains(lua("return plot({0, 1, -2, 10, 100}, {yscale = 'log'})"), "100"));
    CHECK(contains(lua("return plot({5})"), "A"));
    CHECK(contains(lua("return plot({5, 5, 5}, {yscale = 'log', xscale = 'log'})"), "A"));
    CHECK(lua("plot(ones(2, 3))") ==
          "user:1: plot: the curve: y: shape 2×3, expected one dimension, such as A(1); heatmap draws a matrix");
    CHECK(contains(lua("return plot(range(1, 5):reshape(1, 5, 1))"), "A"));
    CHECK(lua("plot({0/0})") == "user:1: plot: there is no point to draw, expected at least one finite number");
    CHECK(lua("plot({})") == "user:1: plot: there is no point to draw, expected at least one finite number");
    CHECK(lua("plot({-1, 0}, {yscale = 'log'})") ==
          "user:1: plot: there is no point to draw, expected at least one finite (on a log axis positive) number");
    CHECK(lua("return plot({1, 2}, {error = {0/0, 5}, yscale = 'log'}):svg() ~= nil") == "true");
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

TEST_CASE("what plot does not understand is told in a sentence", "[lua][plot]") {
    Shell lua;
    CHECK(lua("plot()") == "user:1: plot: expected numbers to draw, got nothing");
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

TEST_CASE("without gnuplot one sentence says how to get it", "[lua][plot]") {
    Shell lua;
    const std::string path = std::getenv("PATH");
    setenv("PATH", lua.path("").c_str(), 1);
    const std::string answer = lua("local svg = plot({1, 2}):svg() return svg");
    setenv("PATH", path.c_str(), 1);
    CHECK(answer == "user:1: gnuplot, which draws the pictures, is not installed: apt-get install gnuplot-nox");
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
    CHECK(contains(lua("return heatmap(f64{{1, 0/0}, {0, 1/0}}, {scale = 'log'})"), "??"));
    CHECK(lua("heatmap(3)") == "user:1: A: expected a Tensor, got a number");
    CHECK(lua("heatmap(zeros(2, 3, 4))") == "user:1: A: 2×3×4 Tensor{Float32}, expected one matrix, such as A(1, 1)");
    CHECK(lua("heatmap(zeros(0, 4))") == "user:1: A: 0×4 Tensor{Float32}, expected at least one element");
    CHECK(lua("heatmap(zeros(2, 2), {scale = 'log'})") ==
          "user:1: heatmap: A has no finite positive element, expected at least one");
}
