#include "core/softmax/energy.hpp"

#include <algorithm>

#include "core/base/parallel.hpp"
#include "core/kit/callers_order.hpp"
#include "core/softmax/forms.hpp"

namespace causeway {

using namespace kit;

namespace {

// The checks of softmax_attention, and of zeta.
attention::Sizes check(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& zeta,
                       const EnergyOptions& o) {
    SoftmaxOptions options;
    options.causal = o.causal;
    options.scale = o.scale;
    const attention::Sizes c = attention::check(q, k, v, options);
    if (zeta && zeta->shape() != c.output)
        fail("zeta: ", kit::callers_sizes(zeta->shape()), ", expected ", kit::callers_sizes(c.output));
    if (zeta && zeta->dtype() != c.dtype) fail("zeta: ", name(zeta->dtype()), ", expected ", name(c.dtype), " like q");
    return c;
}

// Rows [factor · a, b].
template <class T>
Tensor beside(const T* a, Index width_a, T factor, const T* b, Index width_b, Index rows) {
    Tensor out(dtype_of<T>, {rows, width_a + width_b});
    T* to = out.data<T>();
    for (Index i = 0; i < rows; ++i, to += width_a + width_b) {
        for (Index e = 0; e < width_a; ++e) to[e] = factor * a[i * width_a + e];
        std::copy_n(b + i * width_b, width_b, to + width_a);
    }
    return out;
}

// Outputs, maxima and sums of softmax attention with [scale · q, ζ] and [k, v] as queries and keys.
template <class T>
struct Pass {
    Tensor O, m, l;

    Pass(const attention::Sizes& c, const Tensor& q, const Tensor& k, const Tensor& v,
         const std::optional<Tensor>& zeta)
        : O(dtype_of<T>, c.output), m(dtype_of<T>, c.rows), l(dtype_of<T>, c.rows) {
        constexpr DType type = dtype_of<T>;
        const Tensor Q = q.to(type), K = k.to(type), V = v.to(type);
        auto p = attention::problem_of<T>(c, Q, K, V);
        p.O = O.data<T>(), p.m = m.data<T>(), p.l = l.data<T>();
        if (!zeta) {
            run_flash(p);
            return;
        }
        const Tensor sources = zeta->to(type);
        const Tensor queries =
            beside(Q.data<T>(), c.d, p.scale, sources.data<T>(), c.dv, c.batch * c.heads * c.group * c.N);
        const Tensor keys = beside(K.data<T>(), c.d, T(1), V.data<T>(), c.dv, c.batch * c.heads * c.M);
        p.q = queries.data<T>(), p.k = keys.data<T>();
        p.d = c.d + c.dv;
        p.scale = T(1);
        run_flash(p);
    }
};

template <class T>
Tensor hessian(const attention::Sizes& c, const Tensor& q, const Tensor& k, const Tensor& v,
               const std::optional<Tensor>& zeta) {
    Shape shape;
    for (int i = 0; i + 2 < q.ndim(); ++i) shape.push_back(q.shape()[i]);
    shape.push_back(c.dv);
    shape.push_back(c.dv);
    Tensor out = Tensor::zeros(dtype_of<T>, shape);
    const Pass<T> pass(c, q, k, v, zeta);
    const Tensor Q = q.to(dtype_of<T>), K = k.to(dtype_of<T>), V = v.to(dtype_of<T>),
                 Z = zeta ? zeta->to(dtype_of<T>) : Tensor::zeros(dtype_of<T>, c.output);
    parallel_for(c.batch * c.heads * c.group, [&](Index row) {
        using Row = Eigen::Map<const Eigen::Matrix<T, 1, Eigen::Dynamic>>;
        const Index head = row / c.group;
        const Row query(Q.data<T>() + row * c.d, c.d), source(Z.data<T>() + row * c.dv, c.dv),
            mean(pass.O.template data<T>() + row * c.dv, c.dv);
        View<T> H(out.data<T>() + row * c.dv * c.dv, c.dv, c.dv);
        const T shift = shift_of(pass.m.template data<T>()[row]), sum = pass.l.template data<T>()[row];
        Scratch<T> centred(1, c.dv);
        for (Index j = 0; j < c.M; ++j) {
            const Row value(V.data<T>() + (head * c.M + j) * c.dv, c.dv);
            const T score =
                static_cast<T>(c.scale) * query.dot(Row(K.data<T>() + (head * c.M + j) * c.d, c.d)) + source.dot(value);
            centred = value - mean;
            const T weight = std::exp(score - shift) / sum;
            for (Index a = 0; a < c.dv; ++a) H.row(a) += weight * centred(0, a) * centred.row(0);
        }
    });
    return out.to(c.dtype);
}

}  // namespace

Tensor energy(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& zeta,
              const EnergyOptions& o) {
    const auto c = check(q, k, v, zeta, o);
    const auto value = [](const auto& pass) { return attention::log_sum_exp(pass.m, pass.l); };
    return c.compute == DType::f64 ? value(Pass<double>(c, q, k, v, zeta)) : value(Pass<float>(c, q, k, v, zeta));
}

Tensor energy_grad(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& zeta,
                   const EnergyOptions& o) {
    const auto c = check(q, k, v, zeta, o);
    return (c.compute == DType::f64 ? Pass<double>(c, q, k, v, zeta).O : Pass<float>(c, q, k, v, zeta).O).to(c.dtype);
}

Tensor energy_hessian(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& zeta,
                      const EnergyOptions& o) {
    const auto c = check(q, k, v, zeta, o);
    if (c.N != 1) fail("q: length ", c.N, ", expected 1, one query");
    return c.compute == DType::f64 ? hessian<double>(c, q, k, v, zeta) : hessian<float>(c, q, k, v, zeta);
}

}  // namespace causeway
