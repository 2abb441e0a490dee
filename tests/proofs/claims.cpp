#include "tests/proofs/claims.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/catch.hpp"

namespace causeway::proofs {
namespace {

struct Record {
    std::string id;
    std::array<std::string, 7> cells;  // claim, kind, checked, input, measured, bound, margin
};

std::vector<Record>& records() {
    static std::vector<Record> all;
    return all;
}

// The trial that runs, if one does, and its fault.
struct Running {
    Trial* trial = nullptr;
    std::string fault;
};

Running& running() {
    static Running now;
    return now;
}

std::string name(Kind kind) { return kind == Kind::bound ? "bound" : kind == Kind::regression ? "regression" : "note"; }

std::string number(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", x);
    return text;
}

// How far inside: the ratio of the two sides.
std::string margin(double inner, double outer) {
    if (inner == 0) return "exact";
    if (inner < 0) return "inside";  // of a bound that is 0
    return std::isfinite(inner) ? "×" + number(outer / inner) : "FAILED";
}

// "the same, n = 5" after "normal X" is "normal X, n = 5": rows are sorted by claim, each must say what it was checked
// on.
std::string whole(const std::string& input) {
    static std::string last;
    constexpr std::string_view same = "the same";
    if (input.rfind(same, 0) == 0) return last + input.substr(same.size());
    return last = input;
}

void record(const std::string& id, const std::string& checked, const std::string& given, const std::string& measured,
            const std::string& bound, const std::string& room, bool holds, Kind kind) {
    if (Trial* trial = running().trial) {
        if (!holds) trial->red.insert(id);
        if (!holds && kind == Kind::bound) trial->bound.insert(id);
        return;
    }
    const std::string input = whole(given);
    records().push_back({id, {id, name(kind), checked, input, measured, bound, holds ? room : "FAILED"}});
    INFO(id << ": " << checked << "; " << input << ": measured " << measured << ", expected " << bound);
    REQUIRE(holds);
}

// Characters of UTF-8 text; all that is used here is one column wide.
std::size_t width(const std::string& text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// "G7-b" as (G, 7, "-b"): F10 comes after F9.
auto order(const std::string& id) {
    char* rest = nullptr;
    const long digits = std::strtol(id.c_str() + 1, &rest, 10);
    return std::make_tuple(id[0], digits, std::string(rest));
}

}  // namespace

void claim(const std::string& id, const std::string& checked, const std::string& input, double measured, double bound,
           Kind kind) {
    record(id, checked, input, number(measured), "≤ " + number(bound), margin(measured, bound), measured <= bound,
           kind);
}

void published_fails(const std::string& id, const std::string& checked, const std::string& input, double error,
                     double at_least, Kind kind) {
    record(id, checked, input, number(error), "≥ " + number(at_least), margin(at_least, error),
           std::isfinite(error) && error >= at_least && at_least > 0, kind);
}

void exactly(const std::string& id, const std::string& checked, const std::string& input, std::int64_t measured,
             std::int64_t expected, Kind kind) {
    record(id, checked, input, std::to_string(measured), "= " + std::to_string(expected), "exact", measured == expected,
           kind);
}

bool fault(const char* name) {
    if (!running().trial) return false;
    running().trial->asked.insert(name);
    return name == running().fault;
}

Trial run_with_fault(const std::string& name, const std::function<void()>& checks) {
    Trial trial;
    running() = {&trial, name};
    try {
        checks();
    } catch (...) {
        running() = {};
        throw;
    }
    running() = {};
    return trial;
}

namespace {

constexpr std::size_t no_end = static_cast<std::size_t>(-1);

// Columns of the terminal that `out` is; no_end where it is none.
std::size_t columns_of(std::FILE* out) {
    winsize size{};
    const bool known = ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : no_end;
}

// A text in lines of so many columns, broken between words, all but the first behind `indent` blanks.
void print_wrapped(std::FILE* out, const std::string& text, std::size_t indent, std::size_t columns) {
    std::istringstream words(text);
    std::string word, line;
    while (words >> word) {
        if (!line.empty() && width(line) + 1 + width(word) > columns) {
            std::fprintf(out, "%s\n", line.c_str());
            line = std::string(indent, ' ') + word;
        } else {
            line += (line.empty() ? "" : " ") + word;
        }
    }
    std::fprintf(out, "%s\n", line.c_str());
}

}  // namespace

void print_claims(std::FILE* out) {
    if (records().empty()) return;
    std::vector<Record> rows = records();
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Record& a, const Record& b) { return order(a.id) < order(b.id); });
    rows.insert(rows.begin(), {"", {"claim", "kind", "checked", "input", "measured", "bound", "margin"}});
    std::array<std::size_t, 7> widest{};
    for (const auto& row : rows)
        for (std::size_t i = 0; i < widest.size(); ++i) widest[i] = std::max(widest[i], width(row.cells[i]));
    const std::size_t columns = columns_of(out);
    std::size_t total = 2 * (widest.size() - 1);
    for (const std::size_t one : widest) total += one;
    std::fputc('\n', out);
    for (const auto& row : rows) {
        std::string line;
        if (total > columns) {  // in paragraphs, whose first word is the claim
            for (const auto& cell : row.cells) line += cell + (&cell == &row.cells.back() ? "" : " ");
            print_wrapped(out, line, 4, columns);
            continue;
        }
        for (std::size_t i = 0; i < widest.size(); ++i)
            line += row.cells[i] + std::string(widest[i] - width(row.cells[i]) + 2, ' ');
        line.erase(line.find_last_not_of(' ') + 1);
        std::fprintf(out, "%s\n", line.c_str());
    }
    const std::string legend = std::to_string(rows.size() - 1) +
                               " checks; \"≤\": the claim holds; \"≥\": the form named fails by that much; margin: "
                               "ratio to the bound; bound: red refutes the claim; regression: a value once measured; "
                               "note: a figure, evidence of nothing";
    print_wrapped(out, legend, 0, std::min<std::size_t>(columns, 120));
    std::fputc('\n', out);
}

}  // namespace causeway::proofs
