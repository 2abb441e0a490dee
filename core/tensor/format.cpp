#include "core/tensor/format.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace causeway {
namespace {

std::string print(const char* pattern, int digits, double value) {
    char text[64];
    std::snprintf(text, sizeof text, pattern, digits, value);
    return text;
}

// "1.50000e+06" -> "1.5e6"
std::string tidy_exponent(const std::string& text) {
    const std::size_t e = text.find('e');
    std::string mantissa = text.substr(0, e);
    if (mantissa.find('.') == std::string::npos) mantissa += ".0";
    while (mantissa.back() == '0' && mantissa[mantissa.size() - 2] != '.') mantissa.pop_back();
    return mantissa + "e" + std::to_string(std::atoi(text.c_str() + e + 1));
}

int significant_digits(DType type) { return type == DType::f16 ? 4 : type == DType::bf16 ? 3 : 6; }

// A cell is aligned at the end of its integer part: "-12" | ".5", "1" | ".0e-5", "NaN" | "".
struct Cell {
    explicit Cell(const std::string& text) {
        const std::size_t point = std::min(text.find_first_of(".e"), text.size());
        left = text.substr(0, point);
        right = text.substr(point);
    }
    std::string left, right;
};

struct Column {
    std::vector<Cell> cells;
    std::size_t left = 0, right = 0;
    std::size_t width() const { return left + right; }
};

std::string spaces(std::size_t n) { return std::string(n, ' '); }

// The first `head` and the last `tail` of n, where not all are shown.
struct Shown {
    Shown(Index n, Index max) : count(n), all(n <= max), head(all ? n : (max + 1) / 2), tail(all ? 0 : max / 2) {}
    Index shown() const { return head + tail; }
    Index index(Index i) const { return i < head ? i : count - tail + (i - head); }
    Index count;
    bool all;
    Index head, tail;
};

constexpr std::size_t gap = 2;  // between columns

// The columns of a matrix that are shown: all of them, or some from the left and some from the right.
struct ShownColumns {
    std::vector<Column> left, right;
    bool elided;
};

// Column j of a matrix whose elements start at `first`, in the rows that are shown.
Column column_of(const Tensor& a, Index first, const Shown& row, Index columns, Index j) {
    Column column;
    for (Index i = 0; i < row.shown(); ++i) {
        column.cells.emplace_back(format(a.get(first + row.index(i) * columns + j), a.dtype()));
        column.left = std::max(column.left, column.cells.back().left.size());
        column.right = std::max(column.right, column.cells.back().right.size());
    }
    return column;
}

// Columns from the left as long as they fit, at least one; if that is not all, from both sides, each in its half.
ShownColumns columns_that_fit(const Tensor& a, Index first, const Shown& row, Index columns, std::size_t width) {
    const auto take = [&](std::size_t room, bool from_right) {
        std::vector<Column> taken;
        std::size_t used = 0;
        for (Index j = 0; j < columns; ++j) {
            Column column = column_of(a, first, row, columns, from_right ? columns - 1 - j : j);
            used += (j == 0 && !from_right ? 1 : gap) + column.width();
            if (used > room && (j > 0 || from_right)) break;
            taken.push_back(std::move(column));
        }
        if (from_right) std::reverse(taken.begin(), taken.end());
        return taken;
    };
    ShownColumns shown{take(width, false), {}, false};
    shown.elided = static_cast<Index>(shown.left.size()) < columns;
    if (shown.elided) {
        const std::size_t half = (width - gap - 1) / 2;
        shown.left = take(half + 1, false);
        shown.right = take(half, true);
    }
    return shown;
}

// Lines of a matrix rows × columns whose elements start at `first`.
void append_matrix(std::string& out, const Tensor& a, Index first, Index rows, Index columns, std::size_t width,
                   Index height) {
    const Shown row(rows, std::max<Index>(2, height - 1 + (rows == height)));
    const ShownColumns shown = columns_that_fit(a, first, row, columns, width);
    const auto append_line = [&](const auto& cell_text, const char* between) {
        std::string line = " ";
        bool start = true;
        for (const auto* side : {&shown.left, &shown.right}) {
            if (side == &shown.right && shown.elided) line += spaces(gap) + between;
            for (const Column& column : *side) {
                if (!start) line += spaces(gap);
                start = false;
                line += cell_text(column);
            }
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out += "\n" + line;
    };
    for (Index i = 0; i < row.shown(); ++i) {
        if (!row.all && i == row.head) {
            append_line(
                [](const Column& c) {
                    return spaces(c.left - std::min<std::size_t>(1, c.left)) + "⋮" + spaces(c.right);
                },
                "⋱");
        }
        append_line(
            [i](const Column& c) {
                const Cell& cell = c.cells[static_cast<std::size_t>(i)];
                return spaces(c.left - cell.left.size()) + cell.left + cell.right + spaces(c.right - cell.right.size());
            },
            "⋯");
    }
}

// Lines for each of `shown` slices when all of them, with a line for the index above each, an empty line between them
// and two for those left out, take at most `height`.
Index lines_of_slice(Index shown, Index slices, Index height) {
    return std::max<Index>(3, (height - (shown - 1) - (shown < slices ? 2 : 0)) / shown - 1);
}

// How many of the slices of m rows are shown: all, else three, two or one.
Index slices_that_fit(Index slices, Index m, Index height) {
    const auto fits = [&](Index shown) {
        const Index lines = std::min<Index>(m, 4);  // a first row, two more or one and the dots, and a last one
        return shown * (lines + 2) - 1 + (shown < slices ? 2 : 0) <= height;
    };
    if (fits(slices)) return slices;
    for (const Index shown : {3, 2}) {
        if (shown < slices && fits(shown)) return shown;
    }
    return 1;
}

}  // namespace

std::string format(double value, DType type) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Inf" : "-Inf";
    if (value == std::floor(value) && std::abs(value) < 1e6) return print("%.*f", 1, value);
    const int digits = significant_digits(type);
    if (is_storage_only(type) && std::abs(value) >= 100 && std::abs(value) < 1e6)
        return print("%.*f", 1, value);  // steps of 1/16 or more
    std::string text = print("%.*g", digits, value);
    if (text.find_first_of(".e") == std::string::npos) {
        // Rounded to a whole number: 1.9999999 is shown as 2.0; but where all digits stand before the point, the
        // exponent says that there was more.
        if (std::abs(value) < std::pow(10.0, digits - 1)) return text + ".0";
        text = print("%.*e", digits - 1, value);
    }
    return text.find('e') == std::string::npos ? text : tidy_exponent(text);
}

std::string format(const Tensor& a, int columns, int rows) {
    const Shape& shape = a.shape();
    std::string out = a.summary();
    if (a.size() == 0) return out;
    out += ":";
    const auto width = static_cast<std::size_t>(std::max(columns, 20));
    const Index height = std::max(rows - 4, 4);  // the header, and room for what was typed
    if (shape.ndim() <= 2) {
        append_matrix(out, a, 0, shape.ndim() == 2 ? shape[0] : a.size(), shape.ndim() == 2 ? shape[1] : 1, width,
                      height);
        return out;
    }
    // Slices [i, j, :, :] in turn; where they are many, two or one from the front and one from the end.
    const Index m = shape.back(1), n = shape.back(), slices = a.size() / (m * n);
    const Shown slice(slices, slices_that_fit(slices, m, height));
    const Index each = lines_of_slice(slice.shown(), slices, height);
    for (Index s = 0; s < slice.shown(); ++s) {
        const Index index = slice.index(s);
        out += s == 0 ? "\n[" : "\n\n[";
        if (shape.ndim() == 4) out += std::to_string(index / shape[1] + 1) + ", ";
        out += std::to_string(index % shape.back(2) + 1) + ", :, :] =";
        append_matrix(out, a, index * m * n, m, n, width, each);
        if (!slice.all && s + 1 == slice.head) out += "\n\n⋮";
    }
    return out;
}

}  // namespace causeway
