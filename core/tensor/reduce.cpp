#include "core/tensor/reduce.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/base/parallel.hpp"
#include "core/tensor/elementwise.hpp"

namespace causeway {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// How two partial results become one.
struct Sum {
    static constexpr double empty = 0;
    static double join(double a, double b) { return a + b; }
};
struct Product {
    static constexpr double empty = 1;
    static double join(double a, double b) { return a * b; }
};
struct Greatest {
    static constexpr double empty = -infinity;
    static double join(double a, double b) { return a > b || a != a ? a : b; }
};
struct Least {
    static constexpr double empty = infinity;
    static double join(double a, double b) { return a < b || a != a ? a : b; }
};

template <class Use>
decltype(auto) with_join(Reduction op, Use&& use) {
    switch (op) {
        case Reduction::prod: return use(Product{});
        case Reduction::maximum: return use(Greatest{});
        case Reduction::minimum: return use(Least{});
        default: return use(Sum{});
    }
}

constexpr Index most_columns = 64;
using Columns = std::array<double, most_columns>;

// out[c] = load(begin + c, c) joined with load(begin + stride + c, c), ... over n rows, c < width <= most_columns.
// Pairwise: halves are folded on their own and joined. Fixed: the width where it is known to the compiler.
template <class Join, Index Fixed = 0, class Load>
void fold(const Load& load, Index begin, Index n, Index stride, Index width, double* out) {
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
    fold<Join, Fixed>(load, begin, half, stride, width, out);
    fold<Join, Fixed>(load, begin + half * stride, n - half, stride, width, rest.data());
    for (Index c = 0; c < width; ++c) out[c] = Join::join(out[c], rest[static_cast<std::size_t>(c)]);
}

// load(begin, _), ..., load(begin + n - 1, _) joined: as rows of 16 lanes, which the compiler turns into vectors.
template <class Join, class Load>
double fold_run(const Load& load, Index begin, Index n) {
    constexpr Index lanes = 16;
    const Index rows = n / lanes;
    Columns column;
    fold<Join, lanes>(load, begin, rows, lanes, lanes, column.data());
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
        const Index per_row = (inner + most_columns - 1) / most_columns, blocks = outer * per_row;
        const Index together = std::max<Index>(1, (1 << 15) / std::max<Index>(1, n * std::min(inner, most_columns)));
        parallel_for((blocks + together - 1) / together, [&](Index t) {
            for (Index b = t * together; b < std::min(blocks, (t + 1) * together); ++b) {
                const Index c = b % per_row * most_columns;
                task(b / per_row, c, std::min(most_columns, inner - c));
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
            fold<Join>(load, begin, along.n, along.inner, width, column.data());
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

void check_some(Index n, const char* what, const Tensor& a) {
    if (n == 0) fail(what, " of a ", a.summary(), ": expected at least one element");
}

void check_reducible(Reduction op, Index n, const Tensor& a) {
    if (op == Reduction::maximum) check_some(n, "maximum", a);
    if (op == Reduction::minimum) check_some(n, "minimum", a);
}

template <class T>
bool beats(Extreme e, T x, T best) {
    return best == best && (x != x || (e == Extreme::greatest ? x > best : x < best));
}

const char* name(Extreme e) { return e == Extreme::greatest ? "argmax" : "argmin"; }

// p-quantile of x[0 ... n), n > 0, which is reordered.
template <class T>
double quantile_of(T* x, Index n, double p) {
    if (std::any_of(x, x + n, [](T v) { return v != v; })) return nan;
    const double position = p * static_cast<double>(n - 1);
    const auto below = static_cast<Index>(position);
    const double share = position - static_cast<double>(below);
    std::nth_element(x, x + below, x + n);
    const double low = x[below];
    if (share == 0) return low;
    const double high = *std::min_element(x + below + 1, x + n);
    return low == high ? low : low + share * (high - low);
}

void check_quantile(double p) {
    if (!(p >= 0 && p <= 1)) fail("quantile: p: ", p, ", expected a number from 0 to 1");
}

}  // namespace

double reduce(Reduction op, const Tensor& a) {
    check_reducible(op, a.size(), a);
    const Index n = a.size();
    const auto count = static_cast<double>(n);
    return with_elements(a, [&](const auto* x) {
        const double folded = with_join(op, [&](auto join) {
            return fold_all<decltype(join)>([x](Index i, Index) { return static_cast<double>(x[i]); }, n);
        });
        if (op == Reduction::mean) return folded / count;
        if (op != Reduction::deviation) return folded;
        if (n < 2) return nan;
        const double mean = folded / count;
        const double squares = fold_all<Sum>(
            [=](Index i, Index) {
                const double d = x[i] - mean;
                return d * d;
            },
            n);
        return std::sqrt(squares / (count - 1));
    });
}

Tensor reduce(Reduction op, const Tensor& a, int dim) {
    const Along along(a.shape(), dim);
    Tensor out(computing_type(a.dtype()), along.kept);
    if (out.size() == 0) return out;
    check_reducible(op, along.n, a);
    const auto count = static_cast<double>(along.n);
    with_elements(a, [&](const auto* x) {
        using T = std::remove_cv_t<std::remove_pointer_t<decltype(x)>>;
        T* const result = out.data<T>();
        const auto element = [x](Index) { return [x](Index i, Index) { return static_cast<double>(x[i]); }; };
        if (op != Reduction::mean && op != Reduction::deviation) {
            with_join(
                op, [&](auto join) { fold_along<decltype(join)>(along, element, result, [](double v) { return v; }); });
        } else if (op == Reduction::mean) {
            fold_along<Sum>(along, element, result, [=](double v) { return v / count; });
        } else if (along.n < 2) {
            std::fill_n(result, out.size(), static_cast<T>(nan));
        } else {
            Buffer<double> means(out.size());
            double* const mean = means.data();
            fold_along<Sum>(along, element, mean, [=](double v) { return v / count; });
            const Index step = along.inner == 1 ? 0 : 1;  // a single column is read as lanes, all with its mean
            const auto squared_distance = [=](Index r) {
                return [=](Index i, Index c) {
                    const double d = x[i] - mean[r + c * step];
                    return d * d;
                };
            };
            fold_along<Sum>(along, squared_distance, result, [=](double v) { return std::sqrt(v / (count - 1)); });
        }
    });
    return out;
}

Index find(Extreme e, const Tensor& a) {
    check_some(a.size(), name(e), a);
    return with_elements(a, [&](const auto* x) {
        constexpr Index piece = 1 << 16;
        const Index n = a.size();
        Buffer<Index> best((n + piece - 1) / piece);
        parallel_for(best.size(), [&](Index p) {
            Index at = p * piece;
            for (Index i = at + 1; i < std::min(n, (p + 1) * piece); ++i) {
                if (beats(e, x[i], x[at])) at = i;
            }
            best[p] = at;
        });
        Index at = best[0];
        for (Index p = 1; p < best.size(); ++p) {
            if (beats(e, x[best[p]], x[at])) at = best[p];
        }
        return at;
    });
}

Tensor find(Extreme e, const Tensor& a, int dim) {
    const Along along(a.shape(), dim);
    Tensor out(DType::f64, along.kept);
    if (out.size() == 0) return out;
    check_some(along.n, name(e), a);
    with_elements(a, [&](const auto* x) {
        double* const result = out.data<double>();
        along.columns([&](Index o, Index c, Index width) {
            for (Index k = c; k < c + width; ++k) {
                const auto* column = x + o * along.n * along.inner + k;
                Index at = 0;
                for (Index i = 1; i < along.n; ++i) {
                    if (beats(e, column[i * along.inner], column[at * along.inner])) at = i;
                }
                result[o * along.inner + k] = static_cast<double>(at);
            }
        });
    });
    return out;
}

double norm(const Tensor& a) {
    return with_elements(a, [&](const auto* x) {
        const Index n = a.size();
        const auto squares = [=](double unit) {
            return fold_all<Sum>(
                [=](Index i, Index) {
                    const double v = x[i] / unit;
                    return v * v;
                },
                n);
        };
        const double plain = squares(1);
        // Squares that left the range of double are taken again, relative to the largest element.
        if (plain > 1e-280 && plain < infinity) return std::sqrt(plain);
        const double largest =
            fold_all<Greatest>([=](Index i, Index) { return std::abs(static_cast<double>(x[i])); }, n);
        if (!(largest > 0 && largest < infinity)) return n == 0 ? 0 : largest;
        return largest * std::sqrt(squares(largest));
    });
}

double dot(const Tensor& a, const Tensor& b) {
    if (a.shape() != b.shape())
        fail("dot: shapes ", a.shape().text(), " and ", b.shape().text(), ", expected two of the same shape");
    const DType type = promote(a.dtype(), b.dtype());
    return with_elements(a.to(type), [&](const auto* x) {
        const Tensor other = b.to(type);
        const auto* y = other.data<std::remove_cv_t<std::remove_pointer_t<decltype(x)>>>();
        return fold_all<Sum>([=](Index i, Index) { return static_cast<double>(x[i]) * static_cast<double>(y[i]); },
                             a.size());
    });
}

bool any(const Tensor& a) {
    return with_elements(a, [&](const auto* x) { return std::any_of(x, x + a.size(), [](auto v) { return v != 0; }); });
}

bool all(const Tensor& a) {
    return with_elements(a, [&](const auto* x) { return std::all_of(x, x + a.size(), [](auto v) { return v != 0; }); });
}

double quantile(const Tensor& a, double p) {
    check_quantile(p);
    check_some(a.size(), "quantile", a);
    Tensor x = a.to(computing_type(a.dtype())).copy();
    return x.dtype() == DType::f64 ? quantile_of(x.data<double>(), x.size(), p)
                                   : quantile_of(x.data<float>(), x.size(), p);
}

Tensor quantile(const Tensor& a, double p, int dim) {
    check_quantile(p);
    const Along along(a.shape(), dim);
    Tensor out(computing_type(a.dtype()), along.kept);
    if (out.size() == 0) return out;
    check_some(along.n, "quantile", a);
    with_elements(a, [&](const auto* x) {
        using T = std::remove_cv_t<std::remove_pointer_t<decltype(x)>>;
        T* const result = out.data<T>();
        along.columns([&](Index o, Index c, Index width) {
            Buffer<T> column(along.n);
            for (Index k = c; k < c + width; ++k) {
                for (Index i = 0; i < along.n; ++i) column[i] = x[(o * along.n + i) * along.inner + k];
                result[o * along.inner + k] = static_cast<T>(quantile_of(column.data(), along.n, p));
            }
        });
    });
    return out;
}

Tensor cumsum(const Tensor& a, int dim) {
    const Along along(a.shape(), dim);
    Tensor out(computing_type(a.dtype()), a.shape());
    with_elements(a, [&](const auto* x) {
        using T = std::remove_cv_t<std::remove_pointer_t<decltype(x)>>;
        T* const result = out.data<T>();
        along.columns([&](Index o, Index c, Index width) {
            Columns total;
            std::fill_n(total.data(), width, 0.0);
            for (Index i = 0; i < along.n; ++i) {
                const Index row = (o * along.n + i) * along.inner + c;
                for (Index k = 0; k < width; ++k) {
                    total[static_cast<std::size_t>(k)] += x[row + k];
                    result[row + k] = static_cast<T>(total[static_cast<std::size_t>(k)]);
                }
            }
        });
    });
    return out;
}

Tensor softmax(const Tensor& a) {
    Tensor out(computing_type(a.dtype()), a.shape());
    if (out.size() == 0) return out;
    const Along along(a.ndim() == 0 ? Shape{1} : a.shape(), std::max(0, a.ndim() - 1));
    with_elements(a, [&](const auto* x) {
        using T = std::remove_cv_t<std::remove_pointer_t<decltype(x)>>;
        T* const result = out.data<T>();
        along.columns([&](Index o, Index, Index) {
            const T* from = x + o * along.n;
            T* into = result + o * along.n;
            const auto largest = static_cast<T>(
                fold_run<Greatest>([=](Index i, Index) { return static_cast<double>(from[i]); }, 0, along.n));
            for (Index i = 0; i < along.n; ++i) into[i] = std::exp(from[i] - largest);
            const double total =
                fold_run<Sum>([=](Index i, Index) { return static_cast<double>(into[i]); }, 0, along.n);
            for (Index i = 0; i < along.n; ++i) into[i] = static_cast<T>(into[i] / total);
        });
    });
    return out;
}

}  // namespace causeway
