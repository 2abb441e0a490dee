#include "core/softmax/softmax_attention.hpp"

#include <cmath>

#include "core/kit/check.hpp"
#include "core/kit/packed.hpp"
#include "core/kit/spread.hpp"
#include "core/measure/counted_tensor.hpp"

namespace causeway {
namespace attention {

Sizes check(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxOptions& o) {
    const AttentionSizes n = check_attention(q, k, v, false);
    const Method& method = methods()[o.method];
    if (!o.cu_seqlens.empty()) {
        if (n.N != n.M) fail("k: length ", n.M, ", expected ", n.N, " like q, as cu_seqlens packs both alike");
        packed_spans(o.cu_seqlens, n.batch, n.N);
    }
    if (o.causal && n.N > n.M)
        fail("q: length ", n.N, ", expected at most the ", n.M,
             " of k: with causal the queries are the last of its positions");
    Sizes c;
    c.method = &method;
    c.batch = n.batch, c.heads = n.heads, c.group = n.group;
    c.N = n.N, c.M = n.M, c.d = n.d, c.dv = n.dv;
    c.causal = o.causal;
    c.dtype = q.dtype();
    c.compute = c.dtype == DType::f64 ? DType::f64 : DType::f32;
    c.scale = o.scale.value_or(1 / std::sqrt(static_cast<double>(std::max<Index>(c.d, 1))));
    check_scale(c.scale, c.compute);
    c.output = q.shape();
    c.output[c.output.ndim() - 1] = c.dv;
    for (int i = 0; i + 1 < q.ndim(); ++i) c.rows.push_back(q.shape()[i]);
    return c;
}

Tensor log_sum_exp(const Tensor& m, const Tensor& l) {
    Tensor out(m.dtype(), m.shape());
    for (Index i = 0; i < m.size(); ++i) out.set(i, m.get(i) + std::log(l.get(i)));
    return out;
}

namespace {

template <class T>
SoftmaxResult compute(const Sizes& c, const Tensor& q, const Tensor& k, const Tensor& v) {
    Tensor O(dtype_of<T>, c.output), m(dtype_of<T>, c.rows), l(dtype_of<T>, c.rows);
    auto p = problem_of<T>(c, q, k, v);
    p.O = O.data<T>(), p.m = m.data<T>(), p.l = l.data<T>();
    kit::computing_in<T> (*c.method)(p);
    return {O.to(c.dtype), log_sum_exp(m, l)};
}

// Each packed sequence by call(q, k, v, options) as if it were alone.
template <class Call>
SoftmaxResult each_packed(const Sizes& c, const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxOptions& o,
                          bool in_turn, Call&& call) {
    SoftmaxResult out{Tensor(c.dtype, c.output), Tensor(c.compute, c.rows)};
    SoftmaxOptions one = o;
    one.cu_seqlens.clear();
    const auto compute_one = [&](Index, const Span& span) {
        const SoftmaxResult r = call(tokens_of(q, span), tokens_of(k, span), tokens_of(v, span), one);
        put_tokens(out.O, span, r.O);
        put_tokens(out.lse, span, r.lse, false);
    };
    const auto spans = packed_spans(o.cu_seqlens, c.batch, c.N);
    if (!in_turn) each_sequence(spans, compute_one);
    else
        for (const Span& span : spans) compute_one(0, span);
    return out;
}

}  // namespace
}  // namespace attention

SoftmaxResult softmax_attention(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxOptions& o) {
    const auto c = attention::check(q, k, v, o);
    if (!o.cu_seqlens.empty())
        return attention::each_packed(c, q, k, v, o, false, [](auto&&... x) { return softmax_attention(x...); });
    if (c.compute == DType::f64) return attention::compute<double>(c, q, k, v);
    return attention::compute<float>(c, q.to(DType::f32), k.to(DType::f32), v.to(DType::f32));
}

SoftmaxResult softmax_attention_counted(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxOptions& o,
                                        OperationCount& count) {
    using namespace attention;
    const Sizes c = check(q, k, v, o);
    if (!o.cu_seqlens.empty())
        return each_packed(c, q, k, v, o, true, [&](auto&&... x) { return softmax_attention_counted(x..., count); });
    const auto cq = to_counted(q), ck = to_counted(k), cv = to_counted(v);
    Buffer<Counted> O(c.output.size()), m(c.rows.size()), l(c.rows.size());
    Problem<Counted> p;
    p.batch = c.batch, p.heads = c.heads, p.group = c.group;
    p.N = c.N, p.M = c.M, p.d = c.d, p.dv = c.dv;
    p.causal = c.causal;
    p.q = cq.data(), p.k = ck.data(), p.v = cv.data();
    p.O = O.data(), p.m = m.data(), p.l = l.data();
    p.scale = c.scale;
    const CountsOfThisCall counts;
    c.method->counted(p);
    count += counted;
    return {from_counted(O, c.dtype, c.output),
            log_sum_exp(from_counted(m, c.compute, c.rows), from_counted(l, c.compute, c.rows))};
}

}  // namespace causeway
