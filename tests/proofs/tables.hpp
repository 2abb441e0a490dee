// The printed tables of the documents, experiments/data/reference.
#pragma once

#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "core/base/csv.hpp"
#include "core/base/error.hpp"
#include "core/base/file.hpp"
#include "tests/paths.hpp"

namespace causeway::proofs {

// Cells as text; "OOM" and "NA" stand as they are printed.
struct Table {
    std::vector<std::string> columns;
    std::vector<std::vector<std::string>> rows;

    std::size_t column(const std::string& name) const {
        for (std::size_t i = 0; i < columns.size(); ++i)
            if (columns[i] == name) return i;
        fail("no column ", name);
    }
    const std::string& cell(std::size_t row, const std::string& name) const { return rows[row][column(name)]; }

    // The cell of the one row in which these columns have these values.
    const std::string& text(std::initializer_list<std::pair<const char*, std::string>> where,
                            const std::string& name) const {
        const std::string* found = nullptr;
        for (std::size_t i = 0; i < rows.size(); ++i) {
            bool matches = true;
            for (const auto& [key, value] : where) matches = matches && cell(i, key) == value;
            if (!matches) continue;
            if (found) fail("two rows for ", where.begin()->second);
            found = &cell(i, name);
        }
        if (!found) fail("no row for ", where.begin()->second);
        return *found;
    }
    // NaN for what is not a number.
    double number(std::initializer_list<std::pair<const char*, std::string>> where, const std::string& name) const {
        return as_number(text(where, name));
    }

    static double as_number(const std::string& text) {
        char* rest = nullptr;
        const double x = std::strtod(text.c_str(), &rest);
        return rest == text.c_str() || *rest ? NAN : x;
    }
};

inline Table read_table(const std::string& name) {
    const Source source(source_dir() + "/experiments/data/reference/" + name);
    const auto text = source.text();
    csv::Reader reader({text.data(), static_cast<std::size_t>(text.size())}, name);
    Table out{reader.columns(), {}};
    std::vector<csv::Cell> row;
    const auto as_text = [](const csv::Cell& cell) -> std::string {
        if (const auto* s = std::get_if<std::string>(&cell)) return *s;
        if (const auto* i = std::get_if<std::int64_t>(&cell)) return std::to_string(*i);
        if (const auto* b = std::get_if<bool>(&cell)) return *b ? "true" : "false";
        if (const auto* x = std::get_if<double>(&cell)) return sentence(*x);
        return "";
    };
    while (reader.next(row)) {
        auto& cells = out.rows.emplace_back();
        for (const auto& cell : row) cells.push_back(as_text(cell));
    }
    return out;
}

}  // namespace causeway::proofs
