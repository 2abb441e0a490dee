// The HTML page: its order, its paragraphs, what is escaped, and what says how it was made.
#include <string>

#include "tests/catch.hpp"
#include "tests/lua/program.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::contains;
using causeway::testing::Shell;

TEST_CASE("a report stands alone", "[lua][report]") {
    Shell lua;
    const std::string page =
        lua("return report{title = 'A <b>', 'x & y', {heading = 'H'}, {code = 'c < d'}, text_table({{a = 1}}), "
            "plot({1, 2, 3}), plot({3, 2, 1})}");
    for (const char* part :
         {"<title>A &lt;b&gt;</title>", "<p>x &amp; y</p>", "<h2 id=\"s2\">H</h2>", "<pre>c &lt; d</pre>", "<table>",
          "<svg", "prefers-color-scheme: dark", "f5-gnuplot_canvas", "f6-gnuplot_canvas"}) {
        CAPTURE(part);
        CHECK(page.find(part) != std::string::npos);
    }
    for (const char* part : {"<script", "<link", "src=", "@import", "<?xml", "url(http"}) {
        CAPTURE(part);
        CHECK(page.find(part) == std::string::npos);
    }
    CHECK(
        lua("report{print}") ==
        "user:1: report: part 1: expected a text, {heading = ...}, {code = ...}, a table or a picture, got a function");
}

TEST_CASE("a text is paragraphs that reflow", "[lua][report]") {
    Shell lua;
    const std::string page = lua("return report{'\\nline < one\\nline two\\n \\nnext', '', '\\n'}");
    CHECK(contains(page, "<p>line &lt; one\nline two</p>\n<p>next</p>\n<footer>"));
    CHECK(contains(page, "name=\"viewport\" content=\"width=device-width"));
    CHECK_FALSE(contains(page, "p { margin: .6rem 0; white-space"));
}

TEST_CASE("a page has its contents and no empty section", "[lua][report]") {
    Shell lua;
    const std::string page =
        lua("return report{'first', {heading = 'A <b>'}, {heading = 'B'}, 'b', {heading = 'C & c'}, 'c', {heading = "
            "'D'}, ''}");
    CHECK(contains(page,
                   "<li><a href=\"#s2\">B</a></li>\n<li><a href=\"#s3\">C &amp; c</a></li>\n</ul></nav>\n<p>first"));
    CHECK(contains(page, "<h2 id=\"s2\">B</h2>"));
    for (const char* left_out : {"A &lt;b", ">D<"}) CHECK_FALSE(contains(page, left_out));
    CHECK_FALSE(contains(lua("return report{{heading = 'B'}, 'b'}"), "<nav"));
}

TEST_CASE("pictures stand before long tables, and very long ones are folded", "[lua][report]") {
    Shell lua;
    lua("function rows(n) local t = {} for i = 1, n do t[i] = {a = i} end return t end");
    const auto order = [&](int n) {
        const std::string page =
            lua("return report{'text', text_table(rows(" + std::to_string(n) +
                "), {title = 'T <b>'}), 'between', plot({1, 2}), 'end', {heading = 'H'}, 'below'}");
        std::string found;
        for (std::size_t at = 0; (at = page.find('<', at)) != std::string::npos; ++at) {
            for (const char* tag :
                 {"<p>text", "<p>between", "<figure>", "<p>end", "<p>below", "<table>", "<details>"}) {
                if (page.compare(at, std::string(tag).size(), tag) == 0) found += std::string(tag).substr(1) + " ";
            }
        }
        return found;
    };
    CHECK(order(10) == "p>text table> p>between figure> p>end p>below ");
    CHECK(order(11) == "p>text p>between figure> table> p>end p>below ");
    CHECK(order(21) == "p>text p>between figure> details> table> p>end p>below ");
    CHECK(contains(lua("return report{text_table(rows(30), {title = 'T <b>'})}"),
                   "<summary>T &lt;b&gt; (30 rows)</summary>"));
    CHECK(contains(lua("return report{text_table(rows(30))}"), "<summary>Table (30 rows)</summary>"));
}

TEST_CASE("a page links its data and says what made it", "[lua][report]") {
    Shell lua;
    lua("save(dir .. 'a & b.csv', {{a = 1}}) mkpath(dir .. 'pages')");
    const std::string page =
        lua("causeway._command = {'causeway', 'x <y>.lua', \"it's\"} "
            "return report{'text', save = dir .. 'pages/p.html', data = dir .. 'a & b.csv'}");
    CHECK(contains(page, "<a href=\"../a%20%26%20b.csv\">../a &amp; b.csv</a>"));
    CHECK(contains(page,
                   "<pre class=\"command\">causeway &#39;x &lt;y&gt;.lua&#39; &#39;it&#39;\\&#39;&#39;s&#39;</pre>"));
    CHECK(contains(lua("return report{'t', save = dir .. 'p.html', data = {dir .. 'a & b.csv'}}"),
                   "<a href=\"a%20%26%20b.csv\">"));
    CHECK(lua("report{'t', data = 'no_such.csv'}") ==
          "user:1: report: data: \"no_such.csv\" cannot be read, expected a file that is there");
    CHECK(lua("report{'t', data = 3}") == "user:1: report: data: expected a file name or a list of them, got a number");
    CHECK(lua("report{'t', data = ones(2)}") ==
          "user:1: report: data: expected a file name or a list of them, got a 2-element Tensor{Float32}");
    CHECK(lua("report{'t', data = {3}}") == "user:1: report: data: item 1: expected a file name, got a number");
}

TEST_CASE("pictures of a page have its colours", "[lua][report]") {
    Shell lua;
    const std::string page = lua("return report{plot({1, 2}, {title = '</svg><script>'})}");
    CHECK(contains(page, "figure svg .paper { fill: none; }"));
    CHECK(contains(page, "class=\"paper\""));
    CHECK(contains(page, "&lt;/svg&gt;&lt;script&gt;"));
    CHECK_FALSE(contains(page, "<script>"));
}

TEST_CASE("headings of two levels, with names to lead to", "[lua][report]") {
    Shell lua;
    const std::string page =
        lua("return report{{heading = 'A'}, {heading = 'B', level = 3, id = 'b'}, 'b', {heading = 'C'}, {heading = "
            "'D', level = 3}, {heading = 'E', level = 3}, 'e'}");
    CHECK(contains(page, "<h2 id=\"s1\">A</h2>"));
    CHECK(contains(page, "<h3 id=\"b\">B</h3>"));
    CHECK(contains(page, "<h2 id=\"s3\">C</h2>"));
    CHECK_FALSE(contains(page, ">D<"));
    CHECK(contains(page, "<li><a href=\"#s1\">A</a></li>\n<li><a href=\"#s3\">C</a></li>\n</ul></nav>"));
    CHECK(lua("report{{heading = 'A', level = 4}, 'a'}") == "user:1: report: part 1: level: 4, expected 2 or 3");
}

TEST_CASE("tables of a page can be copied, where it is asked for", "[lua][report]") {
    Shell lua;
    const std::string page = lua("return report{text_table({{a = 'x<y', b = 0.5}}), copy = true}");
    CHECK(contains(page, "<template data-form=\"CSV\">a,b\nx&lt;y,0.5\n</template>"));
    CHECK(contains(page, "<template data-form=\"Markdown\">| a | b |\n"));
    CHECK(contains(page, "<template data-form=\"LaTeX\">\\begin{tabular}"));
    CHECK(contains(page, "<script>"));
    CHECK_FALSE(contains(page, "src="));
    CHECK_FALSE(contains(lua("return report{text_table({{a = 1}})}"), "template"));
    CHECK(lua("report{'a', copy = 1}") == "user:1: report: copy: expected true or false, got a number");
}

TEST_CASE("a table that is given as open is neither folded nor moved", "[lua][report]") {
    Shell lua;
    lua("t = {} for i = 1, 30 do t[i] = {a = i} end");
    const std::string page = lua("return report{{open = text_table(t)}, 'between', plot({1, 2})}");
    CHECK_FALSE(contains(page, "<details>"));
    CHECK(page.find("<table>") < page.find("<p>between"));
}

TEST_CASE("cells of a table lead where their column says", "[lua][report]") {
    Shell lua;
    lua("t = text_table({{a = 'x', to = 'p.html?a&b'}, {a = 'y'}}, {columns = {{key = 'a', link = function(row) return "
        "row.to end}}})");
    const std::string page = lua("return t:html()");
    CHECK(contains(page, "<td><a href=\"p.html?a&amp;b\">x</a></td>"));
    CHECK(contains(page, "<td>y</td>"));
    CHECK_FALSE(contains(lua("return t:text()"), "p.html"));
    CHECK(lua("text_table({{a = 1}}, {columns = {{key = 'a', link = 'p'}}})") ==
          "user:1: columns: item 1: link: expected a function of the row, got a string");
}

TEST_CASE("only long cells of a page go over several lines", "[lua][report]") {
    Shell lua;
    const std::string html = lua("return text_table({{a = ('word '):rep(12), b = 'word'}}):html()");
    CHECK(contains(html, "<th class=\"long\">a</th><th>b</th>"));
    CHECK(contains(html, "<td>word</td>"));
}

TEST_CASE("a page at the prompt says what it is and where", "[lua][report]") {
    Shell lua;
    CHECK(lua("p = report{title = 'T', 'text', save = dir .. 'p.html'} return p.html == tostring(p), #p == #p.html") ==
          "true true");
    CHECK(contains(lua("return getmetatable(p).__rich(p).text"), "Page \"T\", "));
}

TEST_CASE("what a page cannot have is told, and nothing is dropped", "[lua][report][errors]") {
    Shell lua;
    CHECK(lua("report{'text', save = dir .. 'x.pdf'}").find("x.pdf\", expected a name that ends in .html; a browser") !=
          std::string::npos);
    CHECK(lua("p = report{title = 'T', 'text'} p:save(dir .. 'later.html') return p.path == dir .. 'later.html', "
              "io.open(p.path):read('a') == p.html") == "true true");
    CHECK(lua("p:save('x.txt')").starts_with("user:1: save: \"x.txt\", expected a name that ends in .html"));
    const std::string nothing = ": nothing, expected a text, {heading = ...}, {code = ...}, a table or a picture";
    CHECK(lua("report{[0] = 'lost', 'a'}") == "user:1: report: part 0: parts are counted from 1");
    CHECK(lua("report{title = 'T', unknown}") == "user:1: report: part 1" + nothing);
    CHECK(lua("report{title = 'T', 'a', unknown, 'b'}") == "user:1: report: part 2" + nothing);
    const std::string expected = ": expected a text, {heading = ...}, {code = ...}, a table or a picture, got ";
    CHECK(lua("report{'a', {1, 2, 3}}") ==
          "user:1: report: part 2" + expected + "a list; text_table{name = list} is a table of it");
    CHECK(lua("report{'a', {{N = 1}, {N = 2}}}") ==
          "user:1: report: part 2: a list of tables, of which text_table(rows) makes a table to show");
    CHECK(lua("save(dir .. 'x.csv', {{N = 1}}) report{load(dir .. 'x.csv')}")
              .starts_with("user:1: report: part 1: a list of tables, of which"));
    CHECK(lua("report{{N = 1}}") == "user:1: report: part 1" + expected + "a table of values");
    CHECK(lua("report{3}") == "user:1: report: part 1" + expected + "a number");
    for (const std::string given : {"nil", "'text'", "text_table({{a = 1}})"}) {
        CAPTURE(given);
        CHECK(
            lua("report(" + given + ")").starts_with("user:1: report: expected its parts in braces, report{title = "));
    }
}
