#include "core/gradient/causal_linear_attention_grad.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/parallel.hpp"
#include "core/gated/forms.hpp"
#include "core/gradient/as_given.hpp"
#include "core/gradient/check.hpp"
#include "core/gradient/forms.hpp"
#include "core/kit/callers_order.hpp"
#include "core/kit/check.hpp"
#include "core/kit/packed.hpp"
#include "core/kit/pool.hpp"
#include "core/kit/registry.hpp"

namespace causeway {

using namespace kit;

namespace {

using exact::Dimensions;
using gradient::GradProblem;

constexpr Index default_block = 64;

// One head of values of p with the heads that read its state, whose dO and dV have the d columns of V, while its states
// have the d + 1 of V' = [V, 1].
template <class T>
void normalised(const GradProblem<T>& all, Index head, Index d) {
    const gradient::GradHead<T> h = all.head(head);
    const Index N = all.in.N, rows = all.in.group * N;
    GradProblem<T> p = all;
    Scratch<T> wide(N, d + 1), outputs(rows, d + 1), dwide(N, d + 1), state(all.in.dk, d + 1);
    const ConstView<T> V(h.in.v, N, d), G(h.dO, rows, d);
    p.in.batch = p.in.heads = p.in.shared_queries = p.in.shared_keys = 1;
    p.in.dv = d + 1;
    p.in.q = h.in.q;
    p.in.k = h.in.k;
    p.in.v = wide.data();
    p.in.g = h.in.g;
    wide.leftCols(d) = V;
    wide.col(d).setConstant(T(1));

    T* const first = all.in.S + head * state.size();  // the forward pass advances a copy
    state = ConstView<T>(first, state.rows(), state.cols());
    p.in.O = outputs.data();
    p.in.S = state.data();
    gated::run_chunkwise(p.in);

    for (Index t = 0; t < rows; ++t) {  // N' becomes dN'
        auto row = outputs.row(t);
        const T D = row(d);
        T sum(0);
        for (Index j = 0; j < d; ++j) {
            sum += G(t, j) * (row(j) / D);
            row(j) = G(t, j) / D;
        }
        row(d) = -sum / D;
    }
    p.in.S = first;
    p.dO = outputs.data();
    p.dq = h.dq;
    p.dk = h.dk;
    p.dv = dwide.data();
    p.dg = h.dg;
    p.dS += head * state.size();
    gradient::run_chunkwise_grad(p);
    View<T>(h.dv, N, d) = dwide.leftCols(d);
}

template <class T>
CausalGradient compute(const gradient::CausalRunner& runner, const Dimensions& n, const Tensor& B, const Tensor& C,
                       const Tensor& V, const Tensor& dO, const CausalOptions& o) {
    constexpr DType type = dtype_of<T>;
    const Index width = n.d + (o.normalize ? 1 : 0), state_heads = n.state_heads(), heads = n.batch * state_heads;
    CausalGradient out;
    Tensor dB(type, {n.batch, n.heads, n.N, n.r}), dC(type, {n.batch, state_heads, n.N, n.r});
    out.dV = Tensor(type, V.shape());
    Tensor dS = Tensor::zeros(type, {n.batch, state_heads, n.r, width});
    Tensor state = o.state ? *o.state : Tensor::zeros(type, dS.shape());
    Tensor g, dg;
    GradProblem<T> p;
    p.in.batch = n.batch, p.in.heads = state_heads, p.in.N = n.N, p.in.dk = n.r, p.in.dv = n.d;
    p.in.group = n.shared_V, p.in.shared_queries = n.shared_B, p.in.shared_keys = n.shared_C / n.shared_V;
    p.in.chunk = std::min(o.block.value_or(default_block), std::max<Index>(n.N, 1));
    p.in.q = B.data<T>(), p.in.k = C.data<T>(), p.in.v = V.data<T>();
    p.in.S = state.data<T>();
    p.in.scale = o.normalize ? T(1) : static_cast<T>(o.scale);  // a factor on B Cᵀ cancels in the quotient
    p.dO = dO.data<T>();
    p.dq = dB.data<T>(), p.dk = dC.data<T>(), p.dv = out.dV.data<T>();
    p.dS = dS.data<T>();
    const auto decay_of = [&](Index head) {
        return o.decay.size() == 1 ? 0 : static_cast<std::size_t>(head % state_heads);
    };
    if (!o.decay.empty()) {  // also where every γ is 1: its gradient is wanted
        g = Tensor(type, {heads, n.N});
        dg = Tensor(type, {heads, n.N});
        p.in.gates = 1;
        p.in.g = g.data<T>();
        p.dg = dg.data<T>();
        for (Index h = 0; h < heads; ++h)
            std::fill_n(g.data<T>() + h * n.N, n.N, static_cast<T>(std::log(o.decay[decay_of(h)])));
    }

    computing_in<T>(runner)(p, o.normalize);

    out.dB = gradient::as_given<T>(dB, B);
    out.dC = gradient::as_given<T>(dC, C);
    out.ddecay.assign(o.decay.size(), 0.0);
    for (Index h = 0; p.dg && h < heads; ++h) {
        double sum = 0;
        for (Index t = 0; t < n.N; ++t) sum += static_cast<double>(p.dg[h * n.N + t]);
        out.ddecay[decay_of(h)] += sum / o.decay[decay_of(h)];
    }
    if (o.state) out.dstate = dS;
    return out;
}

// Each packed sequence as if it were alone.
CausalGradient each_packed(const gradient::CausalRunner& runner, const Dimensions& n, const Tensor& B, const Tensor& C,
                           const Tensor& V, const Tensor& dO, const CausalOptions& o) {
    CausalGradient out{Tensor(n.dtype, B.shape()), Tensor(n.dtype, C.shape()), Tensor(n.dtype, V.shape()), {}, {}};
    if (o.state) out.dstate = Tensor(o.state->dtype(), o.state->shape());
    const auto spans = packed_spans(o.cu_seqlens, n.batch, n.N);
    std::vector<std::vector<double>> ddecay(spans.size());
    CausalOptions alone = o;  // without the offsets, which a copy for each sequence would have all of
    alone.cu_seqlens.clear();
    each_sequence(spans, [&](Index i, const Span& span) {
        CausalOptions one = alone;
        if (o.state) one.state = entry_of(*o.state, i);
        const CausalGradient g = gradient::causal_linear_attention_grad_by(
            runner, tokens_of(B, span), tokens_of(C, span), tokens_of(V, span), tokens_of(dO, span), one);
        put_tokens(out.dB, span, g.dB), put_tokens(out.dC, span, g.dC), put_tokens(out.dV, span, g.dV);
        if (g.dstate) put_entry(*out.dstate, i, *g.dstate);
        ddecay[static_cast<std::size_t>(i)] = g.ddecay;
    });
    out.ddecay.assign(o.decay.size(), 0.0);
    for (const auto& one : ddecay)
        for (std::size_t h = 0; h < one.size(); ++h) out.ddecay[h] += one[h];
    return out;
}

// With the states of the sequences, in the type of computation, instead of what they are stored in.
CausalGradient from_stored_states(const gradient::CausalRunner& runner, const Dimensions& n, const Tensor& B,
                                  const Tensor& C, const Tensor& V, const Tensor& dO, const CausalOptions& o) {
    CausalOptions own = o;
    own.state = exact::states_of(n, o);
    own.state_indices.clear();
    CausalGradient out = gradient::causal_linear_attention_grad_by(runner, B, C, V, dO, own);
    if (!o.state_indices.empty()) out.dstate = gradient_of_slots(*out.dstate, o.state_indices, o.state->shape()[0]);
    return out;
}

}  // namespace

exact::Dimensions gradient::check_causal_grad(const Tensor& B, const Tensor& C, const Tensor& V, const Tensor& dO,
                                              const CausalOptions& o) {
    const Dimensions n = exact::check_grouped_inputs(B, C, V);
    if (const Shape output = exact::output_shape(V, n); dO.shape() != output)
        fail("dO: ", kit::callers_sizes(dO.shape()), ", expected ", kit::callers_sizes(output),
             output == V.shape() ? " like V" : " like the output");
    if (dO.dtype() != V.dtype()) fail("dO: ", name(dO.dtype()), ", expected ", name(V.dtype()), " like V");
    exact::check_decay(o.decay, n.state_heads());
    check_scale(o.scale, n.dtype);
    if (o.block && *o.block < 1) fail("block: ", *o.block, ", expected 1 or more");
    if (o.method != "auto") exact::method(o.method);
    if (!o.cu_seqlens.empty()) packed_spans(o.cu_seqlens, n.batch, n.N);
    if (o.state) exact::check_states(n, o);
    else if (!o.state_indices.empty())
        fail("state_indices: given, but no state, expected the pool of their slots as it");
    gradient::check_no_states(o);
    exact::check_deterministic(o);
    return n;
}

template <class T>
void gradient::run_causal_grad(const GradProblem<T>& p, bool normalize) {
    if (normalize) parallel_for(p.in.batch * p.in.heads, [&](Index h) { normalised(p, h, p.in.dv); });
    else run_chunkwise_grad(p);
}
template void gradient::run_causal_grad<float>(const GradProblem<float>&, bool);
template void gradient::run_causal_grad<double>(const GradProblem<double>&, bool);

CausalGradient gradient::causal_linear_attention_grad_by(const CausalRunner& runner, const Tensor& B, const Tensor& C,
                                                         const Tensor& V, const Tensor& dO, const CausalOptions& o) {
    const Dimensions n = gradient::check_causal_grad(B, C, V, dO, o);
    if (o.state && (!o.state_indices.empty() || is_storage_only(o.state->dtype())))
        return from_stored_states(runner, n, B, C, V, dO, o);
    if (!o.cu_seqlens.empty()) return each_packed(runner, n, B, C, V, dO, o);
    if (n.dtype == DType::f64) return compute<double>(runner, n, B, C, V, dO, o);
    CausalGradient out =
        compute<float>(runner, n, B.to(DType::f32), C.to(DType::f32), V.to(DType::f32), dO.to(DType::f32), o);
    out.dB = out.dB.to(n.dtype);
    out.dC = out.dC.to(n.dtype);
    out.dV = out.dV.to(n.dtype);
    return out;
}

CausalGradient causal_linear_attention_grad(const Tensor& B, const Tensor& C, const Tensor& V, const Tensor& dO,
                                            const CausalOptions& o) {
    static const auto& every_head =
        *new gradient::CausalRunner{gradient::run_causal_grad<float>, gradient::run_causal_grad<double>};
    return gradient::causal_linear_attention_grad_by(every_head, B, C, V, dO, o);
}

}  // namespace causeway
