#include "core/tensor/reduce.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/interrupt.hpp"
#include "core/tensor/fold.hpp"

namespace causeway {

using namespace fold;

namespace {

void check_reducible(Reduction op, Index n, const Tensor& a) {
    if (op == Reduction::maximum) check_some(n, "maximum", a);
    if (op == Reduction::minimum) check_some(n, "minimum", a);
}

template <class T>
bool beats(Extreme e, T x, T best) {
    return best == best && (x != x || (e == Extreme::maximum ? x > best : x < best));
}

const char* name(Extreme e) { return e == Extreme::maximum ? "argmax" : "argmin"; }

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
            fold_all<Maximum>([=](Index i, Index) { return std::abs(static_cast<double>(x[i])); }, n);
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

Tensor cumulate(Reduction op, const Tensor& a, int dim) {
    const Along along(a.shape(), dim);
    Tensor out(computing_type(a.dtype()), a.shape());
    with_elements(a, [&](const auto* x) {
        using T = std::remove_cv_t<std::remove_pointer_t<decltype(x)>>;
        T* const result = out.data<T>();
        with_join(op, [&](auto join) {
            using Join = decltype(join);
            along.columns([&](Index o, Index c, Index width) {
                Columns total;
                std::fill_n(total.data(), width, Join::empty);
                for (Index i = 0; i < along.n; ++i) {
                    if (i % 65536 == 0) interrupt::check();
                    const Index row = (o * along.n + i) * along.inner + c;
                    for (Index k = 0; k < width; ++k) {
                        double& t = total[static_cast<std::size_t>(k)];
                        t = Join::join(t, x[row + k]);
                        result[row + k] = static_cast<T>(t);
                    }
                }
            });
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
                fold_run<Maximum>([=](Index i, Index) { return static_cast<double>(from[i]); }, 0, along.n));
            for (Index i = 0; i < along.n; ++i) into[i] = std::exp(from[i] - largest);
            const double total =
                fold_run<Sum>([=](Index i, Index) { return static_cast<double>(into[i]); }, 0, along.n);
            for (Index i = 0; i < along.n; ++i) into[i] = static_cast<T>(into[i] / total);
        });
    });
    return out;
}

}  // namespace causeway
