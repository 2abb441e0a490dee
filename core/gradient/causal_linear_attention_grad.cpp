#include "core/gradient/causal_linear_attention_grad.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/parallel.hpp"
#include "core/gated/forms.hpp"
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

Dimensions check(const Tensor& B, const Tensor& C, const Tensor& V, const Tensor& dO, const CausalOptions& o) {
    const Dimensions n = exact::check_inputs(B, C, V);
    if (dO.shape() != V.shape())
        fail("dO: ", kit::callers_sizes(dO.shape()), ", expected ", kit::callers_sizes(V.shape()), " like V");
    if (dO.dtype() != V.dtype()) fail("dO: ", name(dO.dtype()), ", expected ", name(V.dtype()), " like V");
    exact::check_decay(o.decay, n.heads);
    check_scale(o.scale, n.dtype);
    if (o.block && *o.block < 1) fail("block: ", *o.block, ", expected 1 or more");
    if (o.method != "auto") exact::method(o.method);
    if (!o.cu_seqlens.empty()) packed_spans(o.cu_seqlens, n.batch, n.N);
    if (o.state) exact::check_states(n, o);
    else if (!o.state_indices.empty())
        fail("state_indices: given, but no state, expected the pool of their slots as it");
    if (o.inplace) fail("inplace: true, but a gradient leaves the state as it is");
    if (o.checkpoint_every > 0) fail("checkpoint_every: given, but a gradient returns no states");
    exact::check_deterministic(o);
    return n;
}

// One head of p, whose dO and dV have the d columns of V, while its states have the d + 1 of V' = [V, 1].
template <class T>
void normalised(const GradProblem<T>& all, Index head, Index d) {
    const Index N = all.in.N;
    GradProblem<T> p = all;
    Scratch<T> wide(N, d + 1), outputs(N, d + 1), dwide(N, d + 1), state(all.in.dk, d + 1);
    const ConstView<T> V(all.in.v + head * N * d, N, d), G(all.dO + head * N * d, N, d);
    p.in.batch = p.in.heads = 1;
    p.in.dv = d + 1;
    p.in.q += head * N * p.in.dk;
    p.in.k += head * N * p.in.dk;
    p.in.v = wide.data();
    if (p.in.g) p.in.g += head * N;
    wide.leftCols(d) = V;
    wide.col(d).setConstant(T(1));

    T* const first = all.in.S + head * state.size();  // the forward pass advances a copy
    state = ConstView<T>(first, state.rows(), state.cols());
    p.in.O = outputs.data();
    p.in.S = state.data();
    gated::run_chunkwise(p.in);

    for (Index t = 0; t < N; ++t) {  // N' becomes dN'
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
    p.dq += head * N * p.in.dk;
    p.dk += head * N * p.in.dk;
    p.dv = dwide.data();
    if (p.dg) p.dg += head * N;
    p.dS += head * state.size();
    gradient::run_chunkwise_grad(p);
    View<T>(all.dv + head * N * d, N, d) = dwide.leftCols(d);
}

template <class T>
CausalGradient compute(const gradient::CausalRunner& runner, const Dimensions& n, const Tensor& B, const Tensor& C,
                       const Tensor& V, const Tensor& dO, const CausalOptions& o) {
    constexpr DType type = dtype_of<T>;
    const Index width = n.d + (o.normalize ? 1 : 0), heads = n.batch * n.heads;
    CausalGradient out{Tensor(type, B.shape()), Tensor(type, C.shape()), Tensor(type, V.shape()), {}, {}};
    Tensor dS = Tensor::zeros(type, {n.batch, n.heads, n.r, width});
    Tensor state = o.state ? *o.state : Tensor::zeros(type, dS.shape());
    Tensor g, dg;
    GradProblem<T> p;
    p.in.batch = n.batch, p.in.heads = n.heads, p.in.N = n.N, p.in.dk = n.r, p.in.dv = n.d;
    p.in.chunk = std::min(o.block.value_or(default_block), std::max<Index>(n.N, 1));
    p.in.q = B.data<T>(), p.in.k = C.data<T>(), p.in.v = V.data<T>();
    p.in.S = state.data<T>();
    p.in.scale = o.normalize ? T(1) : static_cast<T>(o.scale);  // a factor on B Cᵀ cancels in the quotient
    p.dO = dO.data<T>();
    p.dq = out.dB.data<T>(), p.dk = out.dC.data<T>(), p.dv = out.dV.data<T>();
    p.dS = dS.data<T>();
    const auto decay_of = [&](Index head) {
        return o.decay.size() == 1 ? 0 : static_cast<std::size_t>(head % n.heads);
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
    each_sequence(spans, [&](Index i, const Span& span) {
        CausalOptions one = o;
        one.cu_seqlens.clear();
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

template <class T>
void gradient::run_causal_grad(const GradProblem<T>& p, bool normalize) {
    if (normalize) parallel_for(p.in.batch * p.in.heads, [&](Index h) { normalised(p, h, p.in.dv); });
    else run_chunkwise_grad(p);
}
template void gradient::run_causal_grad<float>(const GradProblem<float>&, bool);
template void gradient::run_causal_grad<double>(const GradProblem<double>&, bool);

CausalGradient gradient::causal_linear_attention_grad_by(const CausalRunner& runner, const Tensor& B, const Tensor& C,
                                                         const Tensor& V, const Tensor& dO, const CausalOptions& o) {
    const Dimensions n = check(B, C, V, dO, o);
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
