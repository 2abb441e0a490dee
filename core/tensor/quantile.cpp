#include <algorithm>

#include "core/tensor/fold.hpp"

namespace causeway {

using namespace fold;

namespace {

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

}  // namespace causeway
