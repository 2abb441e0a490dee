#include "core/exact/row_sums.hpp"

#include <cmath>

#include "core/base/eigen.hpp"
#include "core/exact/causal_linear_attention.hpp"
#include "core/kit/spread.hpp"

namespace causeway::exact {
namespace {

constexpr double cancelled = 1e-3;

template <class T>
CancelledRows of_head(const T* B, const T* C, Index N, Index r, T gamma) {
    using Row = Eigen::Array<T, Eigen::Dynamic, 1>;
    using Given = Eigen::Map<const Row>;
    Row sum = Row::Zero(r), size = Row::Zero(r);
    CancelledRows out;
    for (Index i = 0; i < N; ++i) {
        const Given b(B + i * r, r), c(C + i * r, r);
        sum = gamma * sum + c;
        size = gamma * size + c.abs();
        const T weights = (b * sum).sum(), most = (b.abs() * size).sum();
        if (!std::isfinite(most) || weights > static_cast<T>(cancelled) * most) continue;
        if (out.count++ == 0) out.token = i;
    }
    return out;
}

template <class T>
CancelledRows of_all(const Tensor& B, const Tensor& C, const Dimensions& n, const std::vector<double>& gamma) {
    const Index head = n.N * n.r;
    std::vector<CancelledRows> heads(static_cast<std::size_t>(n.batch * n.heads));
    parallel_for(n.batch * n.heads, [&](Index h) {
        const double decay = gamma.empty() ? 1 : gamma[static_cast<std::size_t>(h % n.heads / n.shared_V)];
        heads[static_cast<std::size_t>(h)] = of_head(
            B.data<T>() + h / n.shared_B * head, C.data<T>() + h / n.shared_C * head, n.N, n.r, static_cast<T>(decay));
    });
    CancelledRows out;
    for (std::size_t h = 0; h < heads.size(); ++h) {
        if (heads[h].count > 0 && out.count == 0) out.head = static_cast<Index>(h), out.token = heads[h].token;
        out.count += heads[h].count;
    }
    return out;
}

}  // namespace

CancelledRows cancelled_rows(const Tensor& B, const Tensor& C, const Tensor& V, const std::vector<double>& decay) {
    const Dimensions n = check_grouped_inputs(B, C, V);
    const auto gamma = check_decay(decay, n.state_heads());
    if (n.dtype == DType::f64) return of_all<double>(B, C, n, gamma);
    return of_all<float>(B.to(DType::f32), C.to(DType::f32), n, gamma);
}

}  // namespace causeway::exact
