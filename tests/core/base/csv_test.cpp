#include "core/base/csv.hpp"

#include <cmath>
#include <limits>

#include "core/base/text.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::testing;
using csv::Cell;

namespace {

using Rows = std::vector<std::vector<Cell>>;

Rows read(std::string_view text) {
    csv::Reader reader(text, "x.csv");
    Rows rows;
    for (std::vector<Cell> row; reader.next(row);) rows.push_back(row);
    return rows;
}

std::string fault(std::string_view text) {
    return message_of([&] { read(text); });
}

Cell cell(const std::string& text) { return read("a,b\n" + text + ",\n").at(0).at(0); }

std::string line(const Cell& value) {
    std::string out;
    csv::append_row(out, std::vector<Cell>{value, {}});
    return out;
}

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("a cell is what all of it says", "[csv][files]") {
    CHECK(cell("3") == Cell(std::int64_t{3}));
    CHECK(cell("-9223372036854775808") == Cell(std::numeric_limits<std::int64_t>::min()));
    CHECK(cell("9223372036854775808") == Cell(9223372036854775808.0));
    CHECK(cell("+5") == Cell(std::int64_t{5}));
    CHECK(cell(" 7 ") == Cell(std::int64_t{7}));
    CHECK(cell("3.0") == Cell(3.0));
    CHECK(cell("3.7e-7") == Cell(3.7e-7));
    CHECK(cell("5e-324") == Cell(5e-324));
    CHECK(cell("1e-999") == Cell(0.0));
    for (const char* zero : {"-0", "-0.0", "-1e-999"}) CHECK(std::signbit(std::get<double>(cell(zero))));
    CHECK(cell("\"1e999\"") == Cell(std::string("1e999")));
    CHECK(cell("Inf") == Cell(infinity));
    CHECK(cell("-inf") == Cell(-infinity));
    CHECK(std::isnan(std::get<double>(cell("nan"))));
    CHECK(cell("true") == Cell(true));
    CHECK(cell("false") == Cell(false));
    CHECK(cell("") == Cell());
    for (const char* text :
         {"OOM", "timeout", "3 ms", "0x10", "1_000", "True", "-", "+", "+-3", "e5", "nan(1)", "..", " "}) {
        INFO(text);
        CHECK(cell(text) == Cell(std::string(text)));
    }
    CHECK(cell("\"3\"") == Cell(std::string("3")));
    CHECK(cell("\"\"") == Cell(std::string()));
}

TEST_CASE("numbers are written so that they read back the same", "[csv][files]") {
    CHECK(number_text(3.0) == "3.0");
    CHECK(number_text(0.1) == "0.1");
    CHECK(number_text(0.1f) == "0.1");
    CHECK(number_text(1e300) == "1e+300");
    CHECK(number_text(-infinity) == "-Inf");
    CHECK(number_text(std::nan("")) == "NaN");
    for (const double x : {0.1, -0.0, 1.0 / 3, 5e-324, 1.7976931348623157e308, 1e15, 1e16, 123456789.125, infinity}) {
        const Cell back = cell(number_text(x));
        REQUIRE(std::holds_alternative<double>(back));
        CHECK(std::get<double>(back) == x);
        CHECK(std::signbit(std::get<double>(back)) == std::signbit(x));
    }
}

TEST_CASE("text that would not read back gets quotes", "[csv][files]") {
    CHECK(line(std::string("OOM")) == "OOM,\n");
    CHECK(line(std::string("3")) == "\"3\",\n");
    CHECK(line(std::string("")) == "\"\",\n");
    CHECK(line(std::string("true")) == "\"true\",\n");
    CHECK(line(std::string("NaN")) == "\"NaN\",\n");
    CHECK(line(std::string("a,\"b\"\r\nc")) == "\"a,\"\"b\"\"\r\nc\",\n");
    for (const char* text : {"OOM", "3", " 3", "", "true", "inf", "a,b", "\"", "\n", "\r", "ü", " x ", "\"\""})
        CHECK(read("a,b\n" + line(std::string(text)))[0][0] == Cell(std::string(text)));
}

TEST_CASE("lines end in any way, quotes hold anything", "[csv][files]") {
    const Rows expected = {{std::int64_t{1}, std::string("x\ny\"z,")}, {Cell(), 2.5}};
    CHECK(read("a,b\n1,\"x\ny\"\"z,\"\n,2.5\n") == expected);
    CHECK(read("a,b\r\n1,\"x\ny\"\"z,\"\r\n,2.5") == expected);
    CHECK(read("a,b\r1,\"x\ny\"\"z,\"\r,2.5\r") == expected);
    CHECK(read("\xEF\xBB\xBF\"a\",b\n\n1,\"x\ny\"\"z,\"\n\n\n,2.5\n\n") == expected);
    CHECK(read("a,b\n").empty());
    CHECK(csv::Reader("\xEF\xBB\xBF\"a, \"\"x\"\"\",größe", "x.csv").columns() ==
          std::vector<std::string>{"a, \"x\"", "größe"});
    std::string header;
    csv::append_header(header, std::vector<std::string>{"\xEF\xBB\xBF"
                                                        "a"});
    CHECK(csv::Reader(header, "x.csv").columns() == std::vector<std::string>{"\xEF\xBB\xBF"
                                                                             "a"});
    // In a table of one column an empty line is a row.
    CHECK(read("a\n1\n\n2\n") == Rows{{std::int64_t{1}}, {Cell()}, {std::int64_t{2}}});
}

TEST_CASE("a .csv file without names of columns is rows alone, and a comment's mark is no part of a name",
          "[csv][files]") {
    csv::Reader plain("1,2\n\n3,4.5\n", "x.csv", false);
    CHECK(plain.columns() == std::vector<std::string>{"1", "2"});
    Rows rows;
    for (std::vector<Cell> row; plain.next(row);) rows.push_back(row);
    CHECK(rows == Rows{{std::int64_t{1}, std::int64_t{2}}, {std::int64_t{3}, 4.5}});
    CHECK(message_of([] { csv::Reader("", "x.csv", false); }) == "x.csv: the file is empty, expected rows of numbers");
    for (const char* empty : {"\n", "\n\n\n", "\r\n\r\n", "\xEF\xBB\xBF\n"}) {
        CAPTURE(empty);
        CHECK(message_of([&] { csv::Reader(empty, "x.csv", false); }) ==
              "x.csv: the file has empty lines alone, expected rows of numbers");
    }
    CHECK(csv::Reader("\n2\n", "x.csv", false).columns() == std::vector<std::string>{"1"});  // an empty cell, then 2
    CHECK(csv::Reader("# a,# b\n1,2", "x.csv").columns() == std::vector<std::string>{"a", "# b"});
    CHECK(csv::Reader("\"# a\",b\n1,2", "x.csv").columns() == std::vector<std::string>{"# a", "b"});
    std::string header;
    csv::append_header(header, std::vector<std::string>{"# a", "b"});
    CHECK(csv::Reader(header, "x.csv").columns() == std::vector<std::string>{"# a", "b"});
    const auto first = [](std::string_view text) {
        csv::Records records(text, "x.csv");
        std::vector<csv::Records::Field> record;
        records.next(record);
        return csv::is_of_numbers(record);
    };
    CHECK(first("1,-2.5e3\n"));
    CHECK_FALSE(first("1,a\n"));
    CHECK_FALSE(first("1,\"2\"\n"));
    CHECK_FALSE(first("1,\n"));
}

TEST_CASE("cells are parted by what parts the names of the columns", "[csv][files]") {
    const Rows expected = {{std::int64_t{1}, std::string("x; y")}, {2.5, std::string("3,5")}};
    CHECK(read("a;b\n1;\"x; y\"\n2.5;3,5\n") == expected);
    CHECK(read("a\tb\r\n1\tx; y\r\n2.5\t3,5\r\n") == expected);
    CHECK(read("\xEF\xBB\xBF\"a \"\"c, d\"\"\";b\n1;x\n") == Rows{{std::int64_t{1}, std::string("x")}});
    CHECK(csv::Reader("a b;c\td\n", "x.csv").columns() == std::vector<std::string>{"a b", "c\td"});
    // A comma in the first line outside of quotes parts them, whatever else stands there.
    CHECK(csv::Reader("a;b,c\td\n", "x.csv").columns() == std::vector<std::string>{"a;b", "c\td"});
    CHECK(read("a,b\n1;2,3\n") == Rows{{std::string("1;2"), std::int64_t{3}}});
    CHECK(read("a\n1;2\n") == Rows{{std::string("1;2")}});
    // One name with such a sign in it is written so that it stays one.
    for (const char* name : {"a;b", "a\tb", "a,b", ";"}) {
        std::string out;
        csv::append_header(out, std::vector<std::string>{name});
        CHECK(csv::Reader(out, "x.csv").columns() == std::vector<std::string>{name});
    }
    CHECK(fault("a;b\n1;2;3\n") == "x.csv: line 2 has 3 cells, expected 2 as in the first line");
    CHECK(fault("a;b\n\"x\"y;1\n").ends_with("behind a closing quote, expected a semicolon"));
    CHECK(fault("a\tb\n\"x\"y\t1\n").ends_with("behind a closing quote, expected a tab"));
}

TEST_CASE("faults of .csv files are named with their line", "[csv][files]") {
    CHECK(fault("") == "x.csv: the file is empty, expected a line with the names of the columns");
    CHECK(fault("a,b,c\n1,2,3\n1,2\n") == "x.csv: line 3 has 2 cells, expected 3 as in the first line");
    CHECK(fault("a,b\n\"1\n2\",3\n4\n") == "x.csv: line 4 has 1 cell, expected 2 as in the first line");
    CHECK(fault("a,b\n1,2,3\n") == "x.csv: line 2 has 3 cells, expected 2 as in the first line");
    CHECK(fault("a,b\n1,2\n3,-1e999\n") ==
          "x.csv: line 3, column \"b\": the number -1e999 is beyond Float64; as text it would stand in quotes");
    CHECK(fault("a,a\n") == "x.csv: has the column \"a\" twice");
    CHECK(fault("a,b\n1,2\n\"x\ny") == "x.csv: line 3 opens a quote that is never closed");
    CHECK(fault("a,b\n\"x\"y,1\n") ==
          "x.csv: line 2 goes on with \"y,1\\x0A\" behind a closing quote, expected a comma");
    CHECK(fault(std::string_view("\xFF\xFE\x61\x00", 4)) == "x.csv: is UTF-16 text, expected UTF-8");
}

TEST_CASE("what came from a file is shown without harm", "[csv][files]") {
    CHECK(in_quotes("a b") == "\"a b\"");
    CHECK(in_quotes("\x1B[31m\xFF") == "\"\\x1B[31m\\xFF\"");
    CHECK(in_quotes(std::string(1000, 'x')) == "\"" + std::string(60, 'x') + "...\"");
}

TEST_CASE("records are the cells of every line as they stand", "[csv][files]") {
    const std::string text =
        "\xEF\xBB\xBF"
        "1.50,\"a \"\"b\"\", c\",\n\r\n\"two\nlines\",true\r\nlast";
    csv::Records records(text, "x.csv");
    std::vector<csv::Records::Field> record;
    const auto next = [&] {
        while (records.skip_empty_line()) {}
        std::string out = std::to_string(records.line()) + ":";
        if (!records.next(record)) return std::string("end");
        for (const auto& field : record) out += "[" + field.text + (field.in_quotes ? "]q" : "]");
        return out;
    };
    CHECK(next() == "1:[1.50][a \"b\", c]q[]");
    CHECK(next() == "3:[two\nlines]q[true]");
    CHECK(next() == "5:[last]");
    CHECK(next() == "end");
    CHECK(next() == "end");
    CHECK(message_of([] { csv::Records("\xFF\xFE", "x.csv"); }) == "x.csv: is UTF-16 text, expected UTF-8");
    csv::Records open("a,\"b", "x.csv");
    CHECK(message_of([&] { open.next(record); }) == "x.csv: line 1 opens a quote that is never closed");
}
