// Whether a state is the one that was handed on in its place before it was known. That gates leave little of what came
// before does not say so: of 1e12, or of a value that is no number, little is much beside what later tokens make.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/tensor/tensor.hpp"

namespace causeway::sharded {

// Less than a place behind the last of T.
template <class T>
inline constexpr double unseen = static_cast<double>(std::numeric_limits<T>::epsilon()) / 16;

// Whether two states [rows, columns] differ by more than rounding does: a few places of the largest number in the
// column, and, unless the rule mixes rows, in the row. What is not finite differs from everything.
template <class T>
bool differs(const T* S, const T* from, Index rows, Index columns, bool mixes) {
    constexpr double places = 32, share = places * static_cast<double>(std::numeric_limits<T>::epsilon());
    const auto of_columns = static_cast<std::size_t>(columns);
    std::vector<double> in_column(of_columns), in_row(static_cast<std::size_t>(rows));
    for (Index e = 0; e < rows; ++e)
        for (Index c = 0; c < columns; ++c) {
            const auto x = static_cast<double>(S[e * columns + c]);
            if (!std::isfinite(x)) return true;
            double &column = in_column[static_cast<std::size_t>(c)], &row = in_row[static_cast<std::size_t>(e)];
            column = std::max(column, std::abs(x)), row = std::max(row, std::abs(x));
        }
    for (Index e = 0; e < rows; ++e)
        for (Index c = 0; c < columns; ++c) {
            const double apart = std::abs(static_cast<double>(S[e * columns + c]) -
                                          static_cast<double>(from[e * columns + c])),
                         column = in_column[static_cast<std::size_t>(c)],
                         beside = mixes ? column : std::min(column, in_row[static_cast<std::size_t>(e)]);
            if (!(apart <= share * beside)) return true;
        }
    return false;
}
// The same of several states, one after the other.
template <class T>
std::vector<char> differing(std::size_t states, const T* S, const T* from, Index rows, Index columns, bool mixes) {
    std::vector<char> out;
    for (std::size_t k = 0; k < states; ++k) {
        const Index at = static_cast<Index>(k) * rows * columns;
        out.push_back(differs(S + at, from + at, rows, columns, mixes));
    }
    return out;
}

}  // namespace causeway::sharded
