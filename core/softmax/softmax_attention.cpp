#include "core/softmax/softmax_attention.hpp"

#include <array>
#include <cmath>
#include <utility>

#include "core/base/text.hpp"
#include "core/softmax/flash.hpp"
#include "core/softmax/forms.hpp"
#include "core/softmax/standard.hpp"

namespace causeway {
namespace softmax {
namespace {

// Sizes of a tensor [batch, heads, length, width] with leading dimensions left out.
std::array<Index, 4> four(const Tensor& A, const char* name) {
    const int n = A.ndim();
    if (n < 2 || n > 4) fail(name, ": a ", A.summary(), ", expected [batch, heads, length, width], [heads, length, width] or [length, width]");
    const auto& s = A.shape();
    return {n > 3 ? s[0] : 1, n > 2 ? s[n - 3] : 1, s[n - 2], s[n - 1]};
}

}  // namespace

Sizes check(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxOptions& o) {
    const auto Q = four(q, "q"), K = four(k, "k"), V = four(v, "v");
    if (o.method != "flash" && o.method != "standard")
        fail("method: ", in_quotes(o.method), ", expected one of \"flash\", \"standard\"", did_you_mean(o.method, {"flash", "standard"}));
    const auto same = [&](const char* name, const Tensor& A) {
        if (A.ndim() != q.ndim()) fail(name, ": ", A.ndim(), " dimensions (", A.shape().text(), "), expected ", q.ndim(), " like q (", q.shape().text(), ")");
        if (A.dtype() != q.dtype()) fail(name, ": ", causeway::name(A.dtype()), ", expected ", causeway::name(q.dtype()), " like q");
    };
    const auto equal = [](const char* name, const char* what, Index got, Index expected, const char* like) {
        if (got != expected) fail(name, ": ", what, " ", got, ", expected ", expected, " like ", like);
    };
    same("k", k);
    same("v", v);
    equal("k", "batch", K[0], Q[0], "q");
    equal("k", "width", K[3], Q[3], "q");
    equal("v", "batch", V[0], K[0], "k");
    equal("v", "heads", V[1], K[1], "k");
    equal("v", "length", V[2], K[2], "k");
    if (K[1] == 0 ? Q[1] != 0 : Q[1] % K[1] != 0) fail("q: heads ", Q[1], ", expected a multiple of the ", K[1], " of k and v");
    if (o.causal && Q[2] > K[2]) fail("q: length ", Q[2], ", expected at most the ", K[2], " of k: with causal the queries are the last of its positions");
    Sizes c;
    c.batch = Q[0], c.heads = K[1], c.group = K[1] == 0 ? 1 : Q[1] / K[1];
    c.N = Q[2], c.M = K[2], c.d = Q[3], c.dv = V[3];
    c.causal = o.causal;
    c.dtype = q.dtype();
    c.compute = c.dtype == DType::f64 ? DType::f64 : DType::f32;
    c.scale = o.scale.value_or(1 / std::sqrt(static_cast<double>(std::max<Index>(c.d, 1))));
    const bool finite = c.compute == DType::f64 ? std::isfinite(c.scale) : std::isfinite(static_cast<float>(c.scale));
    if (!finite) fail("scale: ", c.scale, ", expected a finite number");
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
SoftmaxResult compute(const Sizes& c, const Tensor& q, const Tensor& k, const Tensor& v, const std::string& method) {
    Tensor O(dtype_of<T>, c.output), m(dtype_of<T>, c.rows), l(dtype_of<T>, c.rows);
    auto p = problem_of<T>(c, q, k, v);
    p.O = O.data<T>(), p.m = m.data<T>(), p.l = l.data<T>();
    if (method == "flash") run_flash(p);
    else run_standard(p);
    return {O.to(c.dtype), log_sum_exp(m, l)};
}

Buffer<Counted> to_counted(const Tensor& A) {
    Buffer<Counted> out(A.size());
    for (Index i = 0; i < A.size(); ++i) out[i] = Counted(A.get(i));
    return out;
}

Tensor from_counted(const Buffer<Counted>& values, DType type, const Shape& shape) {
    Tensor out(type, shape);
    for (Index i = 0; i < values.size(); ++i) out.set(i, values[i].value);
    return out;
}

}  // namespace
}  // namespace softmax

SoftmaxResult softmax_attention(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxOptions& o) {
    const auto c = softmax::check(q, k, v, o);
    if (c.compute == DType::f64) return softmax::compute<double>(c, q, k, v, o.method);
    return softmax::compute<float>(c, q.to(DType::f32), k.to(DType::f32), v.to(DType::f32), o.method);
}

SoftmaxResult softmax_attention_counted(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxOptions& o, OperationCount& count) {
    using namespace softmax;
    const Sizes c = check(q, k, v, o);
    const auto cq = to_counted(q), ck = to_counted(k), cv = to_counted(v);
    Buffer<Counted> O(c.output.size()), m(c.rows.size()), l(c.rows.size());
    Problem<Counted> p;
    p.batch = c.batch, p.heads = c.heads, p.group = c.group;
    p.N = c.N, p.M = c.M, p.d = c.d, p.dv = c.dv;
    p.causal = c.causal;
    p.q = cq.data(), p.k = ck.data(), p.v = cv.data();
    p.O = O.data(), p.m = m.data(), p.l = l.data();
    p.scale = c.scale;
    struct Scope {  // counts of a call that throws are dropped
        OperationCount before = std::exchange(counted, {});
        ~Scope() { counted = before; }
    } scope;
    for (Index h = 0; h < p.all_heads(); ++h) {
        const auto head = p.head(h);
        if (o.method == "flash") flash(head, default_tile, 0, head.rows);
        else standard(head, 0, head.rows);
    }
    count += counted;
    return {from_counted(O, c.dtype, c.output), log_sum_exp(from_counted(m, c.compute, c.rows), from_counted(l, c.compute, c.rows))};
}

}  // namespace causeway
