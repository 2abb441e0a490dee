#include "core/base/csv.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <set>

#include "core/base/error.hpp"
#include "core/base/text.hpp"  // in_quotes, number_text

namespace causeway::csv {
namespace {

constexpr std::string_view utf8_mark = "\xEF\xBB\xBF";
constexpr std::string_view comment_mark = "# ";  // of a line that NumPy does not read, in front of the names

const char* name_of_separator(char separator) {
    return separator == ';' ? "semicolon" : separator == '\t' ? "tab" : "comma";
}

bool is_utf16(std::string_view text) { return text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"); }

// What a cell without quotes means; nothing for a number beyond Float64.
std::optional<Cell> meaning(const std::string& text) {
    constexpr auto npos = std::string::npos;
    if (text.empty()) return Cell{};
    if (text == "true") return true;
    if (text == "false") return false;
    const std::size_t first = text.find_first_not_of(" \t");
    if (first == npos) return text;
    std::string_view number(text.data() + first, text.find_last_not_of(" \t") + 1 - first);
    if (number.size() > 1 && number[0] == '+' && number[1] != '-') number.remove_prefix(1);
    const char* end = number.data() + number.size();
    std::int64_t integer = 0;
    if (const auto [stop, status] = std::from_chars(number.data(), end, integer);
        status == std::errc{} && stop == end) {
        if (integer == 0 && number[0] == '-') return -0.0;
        return integer;
    }
    if (number.find('(') != npos) return text;  // nan(...), which from_chars takes for a number
    double value = 0;
    const auto [stop, status] = std::from_chars(number.data(), end, value);
    if (status == std::errc::invalid_argument || stop != end) return text;
    // Beyond Float64 on either side; strtod tells which: what is too small is 0.
    if (status == std::errc::result_out_of_range) value = std::strtod(std::string(number).c_str(), nullptr);
    if (status == std::errc::result_out_of_range && std::isinf(value)) return std::nullopt;
    // The sign of NaN means nothing, but some programs print it.
    return value == value ? value : std::numeric_limits<double>::quiet_NaN();
}

void append_text(std::string& out, const std::string& text, bool quote) {
    if (!quote && text.find_first_of("\",\r\n") == std::string::npos) {
        out += text;
        return;
    }
    out += '"';
    for (const char c : text) {
        if (c == '"') out += '"';
        out += c;
    }
    out += '"';
}

void append_cell(std::string& out, const Cell& cell) {
    if (const auto* flag = std::get_if<bool>(&cell)) out += *flag ? "true" : "false";
    else if (const auto* integer = std::get_if<std::int64_t>(&cell)) out += std::to_string(*integer);
    else if (const auto* number = std::get_if<double>(&cell)) out += number_text(*number);
    else if (const auto* text = std::get_if<std::string>(&cell)) {
        const std::optional<Cell> read = meaning(*text);
        append_text(out, *text, !read || !std::holds_alternative<std::string>(*read));
    }
}

}  // namespace

char separator_of(std::string_view text) {
    if (text.starts_with(utf8_mark)) text.remove_prefix(utf8_mark.size());
    bool in_quotes = false, may_open = true;  // a quote opens at the beginning of a cell, and again where it closed
    bool semicolon = false, tab = false;
    for (const char c : text) {
        if (c == '"' && (in_quotes || may_open)) {
            in_quotes = !in_quotes;
            may_open = true;
            continue;
        }
        if (in_quotes) continue;
        if (c == ',') return c;
        if (c == '\n' || c == '\r') break;
        may_open = c == ';' || c == '\t';
        semicolon = semicolon || c == ';';
        tab = tab || c == '\t';
    }
    return semicolon ? ';' : tab ? '\t' : ',';
}

Records::Records(std::string_view text, std::string name, char separator)
    : text_(text), name_(std::move(name)), separator_(separator) {
    if (text_.starts_with(utf8_mark)) text_.remove_prefix(utf8_mark.size());  // as spreadsheets put it
    if (is_utf16(text_)) fail_as<IoError>(name_, ": is UTF-16 text, expected UTF-8");
}

bool Records::accept_line_end() {
    if (at_ == text_.size() || (text_[at_] != '\n' && text_[at_] != '\r')) return false;
    if (text_.substr(at_, 2) == "\r\n") ++at_;
    ++at_;
    ++line_;
    return true;
}

// From the quote that opens to the one that closes; two in a row stand for one.
void Records::read_quoted(Field& field) {
    const std::size_t opened = line_;
    field.in_quotes = true;
    for (++at_;; ++at_) {
        const std::size_t quote = text_.find('"', at_);
        if (quote == std::string_view::npos)
            fail_as<IoError>(name_, ": line ", opened, " opens a quote that is never closed");
        const std::string_view part = text_.substr(at_, quote - at_);
        for (std::size_t i = 0; i < part.size(); ++i)
            line_ += part[i] == '\n' || (part[i] == '\r' && part.substr(i, 2) != "\r\n");
        field.text += part;
        at_ = quote + 1;
        if (at_ == text_.size() || text_[at_] != '"') break;
        field.text += '"';
    }
    if (at_ < text_.size() && !ends_cell(text_[at_])) {
        fail_as<IoError>(name_, ": line ", line_, " goes on with ", causeway::in_quotes(text_.substr(at_, 10)),
                         " behind a closing quote, expected a ", name_of_separator(separator_));
    }
}

bool Records::next(std::vector<Field>& record) {
    if (at_end()) return false;
    for (record.clear();; ++at_) {
        Field& field = record.emplace_back();
        if (at_ < text_.size() && text_[at_] == '"') {
            read_quoted(field);
        } else {
            std::size_t end = at_;
            while (end < text_.size() && !ends_cell(text_[end])) ++end;
            field.text = text_.substr(at_, end - at_);
            at_ = end;
        }
        if (at_ == text_.size() || accept_line_end()) return true;
    }
}

bool is_of_numbers(const std::vector<Records::Field>& record) {
    return std::ranges::all_of(record, [](const Records::Field& field) {
        const std::optional<Cell> cell = field.in_quotes ? std::nullopt : meaning(field.text);
        return cell && (std::holds_alternative<std::int64_t>(*cell) || std::holds_alternative<double>(*cell));
    });
}

Reader::Reader(std::string_view text, std::string name, bool has_names)
    : records_(text, std::move(name), separator_of(text)) {
    const Records before = records_;
    if (!records_.next(record_))
        fail_as<IoError>(records_.name(), ": the file is empty, expected ",
                         has_names ? "a line with the names of the columns" : "rows of numbers");
    if (!has_names) {
        records_ = before;
        while (records_.skip_empty_line()) {}
        if (records_.at_end())
            fail_as<IoError>(records_.name(), ": the file has empty lines alone, expected rows of numbers");
        records_ = before;
        for (std::size_t i = 1; i <= record_.size(); ++i) columns_.push_back(std::to_string(i));
        return;
    }
    if (!record_[0].in_quotes && record_[0].text.starts_with(comment_mark))
        record_[0].text.erase(0, comment_mark.size());
    std::set<std::string_view> seen;
    columns_.reserve(record_.size());
    for (Records::Field& field : record_) columns_.push_back(std::move(field.text));
    for (const std::string& column : columns_) {
        if (!seen.insert(column).second)
            fail_as<IoError>(records_.name(), ": has the column ", causeway::in_quotes(column), " twice");
    }
}

bool Reader::next(std::vector<Cell>& row) {
    while (columns_.size() > 1 && records_.skip_empty_line()) {}
    const std::size_t line = records_.line();
    if (!records_.next(record_)) return false;
    if (record_.size() != columns_.size()) {
        fail_as<IoError>(records_.name(), ": line ", line, " has ", record_.size(),
                         record_.size() == 1 ? " cell" : " cells", ", expected ", columns_.size(),
                         " as in the first line");
    }
    row.clear();
    for (Records::Field& field : record_) {
        std::optional<Cell> cell = field.in_quotes ? Cell(std::move(field.text)) : meaning(field.text);
        if (!cell)
            fail_as<IoError>(records_.name(), ": line ", line, ", column ", causeway::in_quotes(columns_[row.size()]),
                             ": ", beyond_f64(field.text), "; as text it would stand in quotes");
        row.push_back(std::move(*cell));
    }
    return true;
}

void append_header(std::string& out, std::span<const std::string> columns) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
        if (i > 0) out += ',';
        const bool has_mark =
            columns[i].starts_with(utf8_mark) || is_utf16(columns[i]) || columns[i].starts_with(comment_mark);
        const bool parts = columns[i].find_first_of(";\t") != std::string::npos;
        append_text(out, columns[i], has_mark || parts);  // which would be no part of the name without quotes
    }
    out += '\n';
}

void append_row(std::string& out, std::span<const Cell> row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
        if (i > 0) out += ',';
        append_cell(out, row[i]);
    }
    out += '\n';
}

}  // namespace causeway::csv
