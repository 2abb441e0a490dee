// Whether the state before a part can be told from none behind it, once it has come. That gates leave little of a state
// does not say so: of 1e12, or of a value that is no number, little is much beside what the part itself makes.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "core/tensor/tensor.hpp"

namespace causeway::sharded {

// Less than a place behind the last of T.
template <class T>
inline constexpr double unseen = static_cast<double>(std::numeric_limits<T>::epsilon()) / 16;

// Below all numbers of T.
template <class T>
inline constexpr double smallest = static_cast<double>(std::numeric_limits<T>::denorm_min());

// Whether adding `most` >= 0 to x would not be seen: behind the last place of x, or below all numbers of T. What is
// not finite is seen.
template <class T>
bool nothing_beside(double most, double x) {
    return std::isfinite(most) && (most <= unseen<T> * std::abs(x) || most < smallest<T>);
}

// f(x[0]) + ... + f(x[n - 1]), in lanes: one sum after the other would wait for itself.
template <class T, class F>
double sum_in_lanes(const T* x, Index n, F&& f) {
    std::array<double, 16> lanes{};
    const auto width = static_cast<Index>(lanes.size());
    Index e = 0;
    for (; e + width <= n; e += width)
        for (Index j = 0; j < width; ++j) lanes[static_cast<std::size_t>(j)] += f(static_cast<double>(x[e + j]));
    double sum = 0;
    for (; e < n; ++e) sum += f(static_cast<double>(x[e]));
    for (const double lane : lanes) sum += lane;
    return sum;
}

// Whether two states [rows, columns] differ by more than rounding does, column by column: a few places of the largest
// number. What is not finite differs from everything.
template <class T>
bool differs(const T* S, const T* from, Index rows, Index columns) {
    constexpr double places = 32;
    for (Index c = 0; c < columns; ++c) {
        double largest = 0, apart = 0;
        for (Index e = 0; e < rows; ++e) {
            const auto x = static_cast<double>(S[e * columns + c]), y = static_cast<double>(from[e * columns + c]);
            if (!std::isfinite(x) || !std::isfinite(y)) return true;
            largest = std::max(largest, std::abs(x)), apart = std::max(apart, std::abs(x - y));
        }
        if (apart > places * static_cast<double>(std::numeric_limits<T>::epsilon()) * largest) return true;
    }
    return false;
}

// The largest of each column of a state [rows, columns] before a part.
template <class T>
class Before {
public:
    Before(const T* S, Index rows, Index columns) : rows_(rows), largest_(static_cast<std::size_t>(columns)) {
        for (Index e = 0; e < rows; ++e)
            for (std::size_t c = 0; c < largest_.size(); ++c, ++S)
                if (const double x = std::abs(static_cast<double>(*S)); !(x <= largest_[c]) && !std::isnan(largest_[c]))
                    largest_[c] = x;
    }

    // Whether A S is nothing beside B where no column of A S is longer than `left` times that of S.
    bool gone(double left, const T* B) const {
        const Before after(B, rows_, static_cast<Index>(largest_.size()));
        for (std::size_t c = 0; c < largest_.size(); ++c)
            if (!nothing_beside<T>(left * length(c), after.largest_[c])) return false;
        return true;
    }
    // How many of the first n tokens hold something of S beside their outputs, output(t, c) where S is 0. q [n, rows];
    // logs: of what is left of the length of a column after each token. Most tokens of a part that forgets have a state
    // in which less than any number of T is left of S, whatever q is.
    template <class Output>
    Index tokens(Index n, const T* q, double scale, const std::vector<double>& logs, Output&& output) const {
        std::vector<double> lengths(largest_.size());
        double longest = 0;
        bool finite = true;
        for (std::size_t c = 0; c < lengths.size(); ++c) {
            lengths[c] = length(c);
            finite = finite && std::isfinite(lengths[c]);
            longest = std::max(longest, lengths[c]);
        }
        const double nothing = finite ? std::log(smallest<T>) - std::log(longest) - 1 : -infinity;
        for (Index t = n; t > 0; --t) {
            const double log = logs[static_cast<std::size_t>(t - 1)];
            if (log < nothing) continue;
            // |q A S_c| <= |q|_1 times the length of A S_c.
            const double sum = sum_in_lanes(q + (t - 1) * rows_, rows_, [](double x) { return std::abs(x); });
            const double left = scale * sum * std::exp(log);
            for (std::size_t c = 0; c < lengths.size(); ++c)
                if (!nothing_beside<T>(left * lengths[c], static_cast<double>(output(t - 1, static_cast<Index>(c)))))
                    return t;
        }
        return 0;
    }

private:
    static constexpr double infinity = std::numeric_limits<double>::infinity();

    // Not less than the length of the column; squares could overflow.
    double length(std::size_t c) const { return std::sqrt(static_cast<double>(rows_)) * largest_[c]; }

    Index rows_;
    std::vector<double> largest_;
};

}  // namespace causeway::sharded
