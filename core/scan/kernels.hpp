// Loops over the small arrays of a step: numbers, vectors and matrices of one head, contiguous, a row at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/kit/exp.hpp"
#include "core/kit/simd.hpp"
#include "core/tensor/functions.hpp"
#include "core/tensor/reduce.hpp"

namespace causeway::scan {

using simd::lanes;
using simd::load;
using simd::store;
using simd::Vector;

// out[i] = e^x[i]
template <class T>
void exponentials(T* out, const T* x, Index n) {
    for (Index i = 0; i < n; i += lanes<T>)
        simd::store_part(out + i, simd::exp<T>(simd::load_part(x + i, n - i)), n - i);
}

// out[i] = 1 / (1 + e^-x[i]), never by the exponential of a positive number.
template <class T>
void sigmoids(T* out, const T* x, Index n) {
    for (Index i = 0; i < n; i += lanes<T>) {
        const Vector<T> v = simd::load_part(x + i, n - i), one = Vector<T>{} + T(1);
        const Vector<T> e = simd::exp<T>(v < T(0) ? v : -v);
        simd::store_part(out + i, (v < T(0) ? e : one) / (one + e), n - i);
    }
}

template <class T>
void apply(Unary op, T* out, const T* x, Index n) {
    if (op == Unary::exp) return exponentials(out, x, n);
    if (op == Unary::sigmoid) return sigmoids(out, x, n);
    functions::with_function(op, [=](auto f) {
        for (Index i = 0; i < n; ++i) out[i] = f(x[i]);
    });
}

// An operand of an operation with broadcasting: where row i begins, and whether a row has more than one element.
template <class T>
struct Repeated {
    const T* data;
    Index row, column;  // steps: 0 where it is repeated

    Repeated(const T* x, const Shape& from, Index rows, Index columns) : data(x) {
        const Index n = from.ndim() > 0 ? from.back() : 1, m = from.ndim() > 1 ? from[0] : 1;
        column = n == columns && n > 1 ? 1 : 0;
        row = m == rows && m > 1 ? n : 0;
    }
};

// out[i, j] = f(x[i, j], y[i, j])
template <class T, class F>
void each(T* out, Repeated<T> x, Repeated<T> y, Index rows, Index columns, F f) {
    const bool x_all = x.column == 1 && x.row == columns, y_all = y.column == 1 && y.row == columns;
    if ((x_all || x.row + x.column == 0) && (y_all || y.row + y.column == 0)) {  // one long row
        columns *= rows;
        rows = 1;
    }
    for (Index i = 0; i < rows; ++i, out += columns) {
        const T *a = x.data + i * x.row, *b = y.data + i * y.row;
        if (x.column && y.column) {
            for (Index j = 0; j < columns; ++j) out[j] = f(a[j], b[j]);
        } else if (x.column) {
            const T repeated = *b;
            for (Index j = 0; j < columns; ++j) out[j] = f(a[j], repeated);
        } else if (y.column) {
            const T repeated = *a;
            for (Index j = 0; j < columns; ++j) out[j] = f(repeated, b[j]);
        } else {
            std::fill_n(out, columns, f(*a, *b));
        }
    }
}

template <class T>
T dot(const T* x, const T* y, Index n) {
    Vector<T> a{}, b{};
    Index i = 0;
    for (; i + 2 * lanes<T> <= n; i += 2 * lanes<T>) {
        a += load(x + i) * load(y + i);
        b += load(x + i + lanes<T>) * load(y + i + lanes<T>);
    }
    for (; i < n; i += lanes<T>) a += simd::load_part(x + i, n - i) * simd::load_part(y + i, n - i);
    return simd::sum<T>(a + b);
}

// out[i] = Σ_j A[i, j] x[j]
template <class T>
void matrix_vector(T* out, const T* A, const T* x, Index rows, Index columns) {
    for (Index i = 0; i < rows; ++i) out[i] = dot(A + i * columns, x, columns);
}

// out[j] = Σ_i x[i] A[i, j], four rows at a time.
template <class T>
void vector_matrix(T* out, const T* x, const T* A, Index rows, Index columns) {
    std::fill_n(out, columns, T(0));
    Index i = 0;
    for (; i + 4 <= rows; i += 4) {
        const T x0 = x[i], x1 = x[i + 1], x2 = x[i + 2], x3 = x[i + 3];
        const T *a0 = A + i * columns, *a1 = a0 + columns, *a2 = a1 + columns, *a3 = a2 + columns;
        Index j = 0;
        for (; j + lanes<T> <= columns; j += lanes<T>)
            store<T>(out + j, load(out + j) +
                                  ((x0 * load(a0 + j) + x1 * load(a1 + j)) + (x2 * load(a2 + j) + x3 * load(a3 + j))));
        for (; j < columns; ++j) out[j] += (x0 * a0[j] + x1 * a1[j]) + (x2 * a2[j] + x3 * a3[j]);
    }
    for (; i < rows; ++i)
        for (Index j = 0; j < columns; ++j) out[j] += x[i] * A[i * columns + j];
}

// A term of a sum (code.hpp) with its elements. A null pointer stands for ones.
template <class T>
struct Product {
    T sign;
    const T *base, *rows, *columns;
    Index row_step;  // of `rows`: 0 for a number

    T row(Index i) const { return rows ? sign * rows[i * row_step] : sign; }
};

// out = f_i base_ij c_j + Σ_k f^k_i c^k_j over `outer` outer products; with `based` and `scaled` the first part and its
// c_j are there. `out` may be the base.
template <class T, bool based, bool scaled, int outer>
void sum_rows(T* out, const Product<T>& first, const Product<T>* products, Index rows, Index columns) {
    for (Index i = 0; i < rows; ++i, out += columns) {
        const T f = based ? first.row(i) : T(0);
        const T* const base = based ? first.base + i * columns : nullptr;
        T g[outer + 1];
        for (int k = 0; k < outer; ++k) g[k] = products[k].row(i);
        const auto element = [&](auto read, Index j) {
            using V = decltype(read(out));
            V sum{};
            if constexpr (based) sum = f * read(base + j);
            if constexpr (based && scaled) sum *= read(first.columns + j);
#pragma GCC unroll 4
            for (int k = 0; k < outer; ++k) sum += g[k] * read(products[k].columns + j);
            return sum;
        };
        Index j = 0;
        for (; j + lanes<T> <= columns; j += lanes<T>)
            store<T>(out + j, element([](const T* p) { return load(p); }, j));
        for (; j < columns; ++j) out[j] = element([](const T* p) { return *p; }, j);
    }
}

constexpr int max_outer = 3;  // outer products that one pass adds

template <class T, bool based, bool scaled>
void sum_rows(T* out, const Product<T>& first, const Product<T>* products, int outer, Index rows, Index columns) {
    switch (outer) {
        case 0: return sum_rows<T, based, scaled, 0>(out, first, products, rows, columns);
        case 1: return sum_rows<T, based, scaled, 1>(out, first, products, rows, columns);
        case 2: return sum_rows<T, based, scaled, 2>(out, first, products, rows, columns);
        default: return sum_rows<T, based, scaled, max_outer>(out, first, products, rows, columns);
    }
}

// out += f_i base_ij c_j
template <class T>
void add_scaled(T* out, const Product<T>& p, Index rows, Index columns) {
    for (Index i = 0; i < rows; ++i, out += columns) {
        const T f = p.row(i);
        const T* const base = p.base + i * columns;
        if (p.columns)
            for (Index j = 0; j < columns; ++j) out[j] += f * base[j] * p.columns[j];
        else
            for (Index j = 0; j < columns; ++j) out[j] += f * base[j];
    }
}

// out = the sum of the products, of which the first `based` have a base, and the others columns and none. `out` may be
// the base of the first.
template <class T>
void sum_of_products(T* out, const Product<T>* products, int based, int count, Index rows, Index columns) {
    // out = `first`, where there is one, and the outer products from `next` on; returns how many are done.
    const auto pass = [=](const Product<T>* first, int next) {
        const int outer = std::min(max_outer, count - next);
        if (!first) sum_rows<T, false, false>(out, products[0], products + next, outer, rows, columns);
        else if (first->columns) sum_rows<T, true, true>(out, *first, products + next, outer, rows, columns);
        else sum_rows<T, true, false>(out, *first, products + next, outer, rows, columns);
        return next + outer;
    };
    int done = pass(based > 0 ? products : nullptr, based);
    for (int k = 1; k < based; ++k) add_scaled(out, products[k], rows, columns);
    const Product<T> so_far{1, out, nullptr, nullptr, 0};
    while (done < count) done = pass(&so_far, done);
}

template <class T>
T reduced(Reduction op, const T* x, Index step, Index n) {
    double out = op == Reduction::prod ? 1 : 0;
    if (op == Reduction::maximum || op == Reduction::minimum) {
        T best = x[0];
        for (Index i = 1; i < n; ++i) {
            const T v = x[i * step];
            if (best == best && (v != v || (op == Reduction::maximum ? v > best : v < best))) best = v;
        }
        return best;
    }
    if (op == Reduction::prod)
        for (Index i = 0; i < n; ++i) out *= static_cast<double>(x[i * step]);
    else
        for (Index i = 0; i < n; ++i) out += static_cast<double>(x[i * step]);
    if (op == Reduction::mean || op == Reduction::deviation) out /= static_cast<double>(n);
    if (op != Reduction::deviation) return static_cast<T>(out);
    if (n < 2) return std::numeric_limits<T>::quiet_NaN();
    double squares = 0;
    for (Index i = 0; i < n; ++i) squares += (x[i * step] - out) * (x[i * step] - out);
    return static_cast<T>(std::sqrt(squares / static_cast<double>(n - 1)));
}

// The root of the sum of squares, again relative to the largest element where squares leave the range of double.
template <class T>
T norm(const T* x, Index n) {
    const auto squares = [=](double unit) {
        double sum = 0;
        for (Index i = 0; i < n; ++i) sum += x[i] / unit * (x[i] / unit);
        return sum;
    };
    const double plain = squares(1);
    if (plain > 1e-280 && plain < std::numeric_limits<double>::infinity()) return static_cast<T>(std::sqrt(plain));
    double largest = 0;
    for (Index i = 0; i < n; ++i) {
        const double v = std::abs(static_cast<double>(x[i]));
        if (v > largest || v != v) largest = v;
        if (v != v) break;
    }
    if (!(largest > 0 && largest < std::numeric_limits<double>::infinity())) return static_cast<T>(largest);
    return static_cast<T>(largest * std::sqrt(squares(largest)));
}

template <class T>
void softmax(T* out, const T* x, Index rows, Index columns) {
    for (Index i = 0; i < rows; ++i, x += columns, out += columns) {
        if (columns == 0) return;
        const T largest = reduced(Reduction::maximum, x, 1, columns);
        for (Index j = 0; j < columns; ++j) out[j] = x[j] - largest;
        exponentials(out, out, columns);
        const T total = reduced(Reduction::sum, out, 1, columns);
        for (Index j = 0; j < columns; ++j) out[j] /= total;
    }
}

}  // namespace causeway::scan
