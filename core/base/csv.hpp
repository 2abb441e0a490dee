// Tables as text: comma-separated values (RFC 4180), UTF-8. Cells are parted by semicolons, or by tabs, where the first
// line has these and no comma, as spreadsheets write it; what is written here has commas.
// The first line names the columns; a "# " in front of it, as NumPy writes one, is no part of a name. A cell in quotes
// is text. A cell without them is nothing (empty), a number, true or false where all of it is one, and text otherwise:
// "3.7e-7" and "OOM" may share a column. What is written reads back as the same value of the same type. "-0" is the
// number -0.0, and a number beyond Float64 (1e999) an error.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace causeway::csv {

// What parts the cells of a text: of the first line outside of quotes a comma where it has one, else a semicolon, else
// a tab; a comma where it has none of them. O(length of the line).
char separator_of(std::string_view text);

// What a cell holds; monostate: nothing.
using Cell = std::variant<std::monostate, bool, std::int64_t, double, std::string>;

// Reads the cells of a text line by line as they stand, the first line too, O(length of the text).
class Records {
public:
    struct Field {
        std::string text;
        bool in_quotes = false;
    };

    // The text must live as long as this; `name` is what messages call it. Throws Error for a text that is UTF-16.
    Records(std::string_view text, std::string name, char separator = ',');

    // The next record; false at the end. Throws Error, with the number of the line, for quotes that do not match.
    bool next(std::vector<Field>& record);
    // Goes past the end of a line that is empty; false where none is.
    bool skip_empty_line() { return accept_line_end(); }
    bool at_end() const { return at_ == text_.size(); }
    std::size_t line() const { return line_; }  // of the record that comes next
    const std::string& name() const { return name_; }

private:
    void read_quoted(Field& field);
    bool accept_line_end();
    bool ends_cell(char c) const { return c == separator_ || c == '\r' || c == '\n'; }

    std::string_view text_;
    std::string name_;
    char separator_;
    std::size_t at_ = 0;
    std::size_t line_ = 1;
};

// Whether every cell of a line is a number, so that it hardly is one of names.
bool is_of_numbers(const std::vector<Records::Field>& record);

// Reads a table row by row, O(length of the text).
class Reader {
public:
    // The text must live as long as the reader; `name` is what messages call it. Without has_names the first line is a
    // row as well, and the columns are called "1", "2" ... Throws Error for a text that is empty, of empty lines alone
    // where it has no names, or UTF-16, and for a column named twice.
    Reader(std::string_view text, std::string name, bool has_names = true);

    const std::vector<std::string>& columns() const { return columns_; }

    // The next row, with as many cells as columns; false at the end. Empty lines are skipped (not in a table of one
    // column, where they are rows). Throws Error, with the number of the line, for a row of another length and for
    // quotes that do not match.
    bool next(std::vector<Cell>& row);

private:
    Records records_;
    std::vector<std::string> columns_;
    std::vector<Records::Field> record_;
};

// Appends one line. Quotes are used where the cell would not read back otherwise.
void append_header(std::string& out, std::span<const std::string> columns);
void append_row(std::string& out, std::span<const Cell> row);

}  // namespace causeway::csv
