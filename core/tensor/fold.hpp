// How reductions fold elements into one number, or into one for each column: pairwise, in pieces of fixed size and in
// lanes that the compiler turns into vectors, so that sums are accurate and depend neither on the number of threads nor
// on the processor.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/base/parallel.hpp"
#include "core/tensor/elementwise.hpp"
#include "core/tensor/reduce.hpp"

namespace causeway::fold {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// How two partial results become one.
struct Sum {
    static constexpr double empty = 0;
    static double join(double a, double b) { return a + b; }
};
struct Product {
    static constexpr double empty = 1;
    static double join(double a, double b) { return a * b; }
};
struct Maximum {
    static constexpr double empty = -infinity;
    static double join(double a, double b) { return a > b || a != a ? a : b; }
};
struct Minimum {
    static constexpr double empty = infinity;
    static double join(double a, double b) { return a < b || a != a ? a : b; }
};

template <class Use>
decltype(auto) with_join(Reduction op, Use&& use) {
    switch (op) {
        case Reduction::prod: return use(Product{});
        case Reduction::maximum: return use(Maximum{});
        case Reduction::minimum: return use(Minimum{});
        default: return use(Sum{});
    }
}

inline constexpr Index max_columns = 64;
using Columns = std::array<double, max_columns>;

// out[c] = load(begin + c, c) joined with load(begin + stride + c, c), ... over n rows, c < width <= max_columns.
// Pairwise: halves are folded on their own and joined. Fixed: the width where it is known to the compiler.
template <class Join, Index Fixed = 0, class Load>
void fold_columns(const Load& load, Index begin, Index n, Index stride, Index width, double* out) {
    constexpr Index few = 32;
    if constexpr (Fixed != 0) width = Fixed;
    if (n <= few) {
        std::fill_n(out, width, Join::empty);
        for (Index i = 0; i < n; ++i) {
            for (Index c = 0; c < width; ++c) out[c] = Join::join(out[c], load(begin + i * stride + c, c));
        }
        return;
    }
    Columns rest;
    const Index half = n / 2;
    fold_columns<Join, Fixed>(load, begin, half, stride, width, out);
    fold_columns<Join, Fixed>(load, begin + half * stride, n - half, stride, width, rest.data());
    for (Index c = 0; c < width; ++c) out[c] = Join::join(out[c], rest[static_cast<std::size_t>(c)]);
}

// load(begin, _), ..., load(begin + n - 1, _) joined: as rows of 16 lanes, which the compiler turns into vectors.
template <class Join, class Load>
double fold_run(const Load& load, Index begin, Index n) {
    constexpr Index lanes = 16;
    const Index rows = n / lanes;
    Columns column;
    fold_columns<Join, lanes>(load, begin, rows, lanes, lanes, column.data());
    double rest = Join::empty;
    for (Index i = rows * lanes; i < n; ++i) rest = Join::join(rest, load(begin + i, 0));
    for (std::size_t step = lanes / 2; step > 0; step /= 2) {
        for (std::size_t c = 0; c < step; ++c) column[c] = Join::join(column[c], column[c + step]);
    }
    return Join::join(column[0], rest);
}

// The same over many threads, in pieces of fixed size.
template <class Join, class Load>
double fold_all(const Load& load, Index n) {
    constexpr Index piece = 1 << 15;
    if (n <= piece) return fold_run<Join>(load, 0, n);
    Buffer<double> partial((n + piece - 1) / piece);
    parallel_for(partial.size(),
                 [&](Index p) { partial[p] = fold_run<Join>(load, p * piece, std::min(piece, n - p * piece)); });
    const double* sums = partial.data();
    return fold_run<Join>([=](Index i, Index) { return sums[i]; }, 0, partial.size());
}

// A tensor seen along one dimension: outer × n × inner elements, inner contiguous.
struct Along {
    Along(const Shape& shape, int dim) : n(shape[dim]), kept(shape) {
        for (int i = 0; i < dim; ++i) outer *= shape[i];
        for (int i = dim + 1; i < shape.ndim(); ++i) inner *= shape[i];
        kept[dim] = 1;
    }

    // Calls task(o, c, width) for blocks of neighbouring columns c ... c + width - 1 of each o < outer, many per task
    // of the pool where columns are short.
    template <class Task>
    void columns(Task task) const {
        if (outer == 0 || inner == 0) return;
        const Index per_row = (inner + max_columns - 1) / max_columns, blocks = outer * per_row;
        const Index together = std::max<Index>(1, (1 << 15) / std::max<Index>(1, n * std::min(inner, max_columns)));
        parallel_for((blocks + together - 1) / together, [&](Index t) {
            for (Index b = t * together; b < std::min(blocks, (t + 1) * together); ++b) {
                const Index c = b % per_row * max_columns;
                task(b / per_row, c, std::min(max_columns, inner - c));
            }
        });
    }

    Index outer = 1, n, inner = 1;
    Shape kept;  // the shape of the result
};

// out[r] = finish(load joined over the n elements of column r), r = o * inner + c; load = load_from(r) for the block of
// columns that starts at r.
template <class Join, class T, class LoadFrom, class Finish>
void fold_along(const Along& along, const LoadFrom& load_from, T* out, const Finish& finish) {
    along.columns([&](Index o, Index c, Index width) {
        const Index begin = o * along.n * along.inner + c, result = o * along.inner + c;
        const auto load = load_from(result);
        Columns column;
        if (along.inner == 1) {
            column[0] = fold_run<Join>(load, begin, along.n);
        } else {
            fold_columns<Join>(load, begin, along.n, along.inner, width, column.data());
        }
        for (Index i = 0; i < width; ++i) out[result + i] = static_cast<T>(finish(column[static_cast<std::size_t>(i)]));
    });
}

// Calls f with a pointer to the elements, of float or double.
template <class F>
decltype(auto) with_elements(const Tensor& a, F&& f) {
    const Tensor x = a.to(computing_type(a.dtype()));
    return x.dtype() == DType::f64 ? f(x.data<double>()) : f(x.data<float>());
}

inline void check_some(Index n, const char* what, const Tensor& a) {
    if (n == 0) fail(what, " of a ", a.summary(), ": expected at least one element");
}

}  // namespace causeway::fold
