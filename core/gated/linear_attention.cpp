#include "core/gated/linear_attention.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "core/around/norms.hpp"
#include "core/base/text.hpp"
#include "core/gated/around.hpp"
#include "core/gated/checkpoints.hpp"
#include "core/kit/callers_order.hpp"
#include "core/kit/check.hpp"
#include "core/kit/packed.hpp"
#include "core/kit/pool.hpp"
#include "core/kit/spread.hpp"
#include "core/measure/counted_tensor.hpp"

namespace causeway {
namespace gated {
namespace {

// One row of `width` for every token of every head of v, from a gate [batch, heads or 1, N(, width)].
Tensor each_head_of(const Tensor& A, DType type, const Shape& full) {
    const Tensor a = A.to(type);
    if (a.size() == full.size()) return a.reshape(full);
    Tensor out(type, full);
    const auto bytes = static_cast<std::size_t>(full[2] * full[3]) * size_of(type);
    for (Index b = 0; b < full[0]; ++b)
        for (Index h = 0; h < full[1]; ++h)
            std::copy_n(a.raw() + static_cast<std::size_t>(b) * bytes, bytes,
                        out.raw() + static_cast<std::size_t>(b * full[1] + h) * bytes);
    return out;
}

// The update that takes a gate, a strength, or both.
std::string rule_with(bool gate, bool strength) {
    for (const Rule& rule : updates()) {
        if (has_gate(rule.update) == gate && has_delta(rule.update) == strength) return rule.name;
    }
    return "";
}

}  // namespace

void check_log_decay(const Tensor& g) {
    const auto first_bad = [&]<class T>(const T* x) {
        std::atomic<Index> bad{g.size()};
        const auto search = [&](Index first, Index n) {
            const Index end = first + n;
            bool fine = true;
            for (Index k = first; k < end; ++k) fine &= x[k] <= T(0);
            if (fine) return;
            Index at = static_cast<Index>(std::find_if(x + first, x + end, [](T a) { return !(a <= T(0)); }) - x);
            for (Index seen = bad; at < seen && !bad.compare_exchange_weak(seen, at);) {}
        };
        each_block(g.size(), search, 1 << 16);
        return bad.load();
    };
    const Index at = g.dtype() == DType::f64 ? first_bad(g.data<double>()) : first_bad(g.data<float>());
    if (at < g.size())
        fail("log_decay: ", number_text(g.get(at)), " in element ", at + 1,
             ", expected numbers <= 0 (the state is multiplied by their exponentials)");
}

Sizes check_sizes(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions& o) {
    const GroupedSizes n = check_grouped(q, k, v);
    Sizes c;
    c.update = updates()[o.update].update;
    c.mode = &modes()[o.mode];
    if (o.chunk < 1) fail("chunk: ", o.chunk, ", expected 1 or more");
    c.batch = n.batch, c.heads = n.heads, c.group = n.group;
    c.shared_queries = n.shared_queries, c.shared_keys = n.shared_keys;
    c.N = n.N, c.dk = n.d, c.dv = n.dv;
    if (!o.cu_seqlens.empty())
        for (const Span& span : packed_spans(o.cu_seqlens, c.batch, c.N))
            c.sequences.push_back({0, span.first, span.n});
    if (o.checkpoint_every < 0) fail("checkpoint_every: ", o.checkpoint_every, ", expected 1 or more, or 0 for none");
    calls::check_determinism(o.deterministic);
    c.chunk = std::min(o.chunk, std::max<Index>(c.N, 1));
    c.dtype = q.dtype();
    c.compute = c.dtype == DType::f64 ? DType::f64 : DType::f32;
    c.scale = o.scale;
    check_scale(o.scale, c.compute);
    c.output = q.shape();
    c.output[c.output.ndim() - 1] = c.dv;
    if (c.output.ndim() > 2) c.output[c.output.ndim() - 3] = c.heads * c.group;
    c.state_shape = {c.sequences.empty() ? c.batch : static_cast<Index>(c.sequences.size()), c.heads, c.dk, c.dv};

    // Gates [.., N] or [.., N, d_k], whose leading dimensions are those of v; one head may serve all.
    const auto gate = [&](const char* name, const std::optional<Tensor>& given, bool wanted, bool channels) -> Index {
        if (!wanted) {
            if (given)
                fail(name, ": given, but update = \"", o.update, "\" has none, expected update = \"",
                     rule_with(o.log_decay.has_value(), o.beta.has_value()), "\"");
            return 0;
        }
        if (!given) fail(name, ": missing, update = \"", o.update, "\" needs it");
        const Shape& s = given->shape();
        const int lead = v.ndim() - 1;  // dimensions of [b, h, N]
        Shape expected;
        for (int i = 0; i < lead; ++i) expected.push_back(v.shape()[i]);
        const auto fits = [&](const Shape& want) {
            if (s.ndim() != want.ndim()) return false;
            for (int i = 0; i < want.ndim(); ++i)
                if (s[i] != want[i] && !(s[i] == 1 && i == lead - 2)) return false;
            return true;
        };
        Shape wide = expected;
        if (fits(expected)) return 1;
        if (channels && lead < Shape::max_ndim) {
            wide.push_back(c.dk);
            if (fits(wide)) return c.dk;
        }
        fail(name, ": ", kit::callers_sizes(s), ", expected ", kit::callers_sizes(expected),
             channels ? ", or " + kit::callers_sizes(wide) + " for a gate per key channel" : std::string());
    };
    c.gates = gate("log_decay", o.log_decay, has_gate(c.update), true);
    gate("beta", o.beta, has_delta(c.update), false);
    c.slots = o.state_indices;
    if (o.state) check_state(*o.state, v, c, o.inplace);
    return c;
}

bool is_state_shape(const Shape& s, const Tensor& v, const Sizes& c) {
    if (s == c.state_shape) return true;
    if (!c.sequences.empty()) return false;
    Shape own;  // as the caller writes v: [b, h, d_k, d_v], [h, d_k, d_v] or [d_k, d_v]
    for (int i = 0; i + 2 < v.ndim(); ++i) own.push_back(v.shape()[i]);
    own.push_back(c.dk);
    own.push_back(c.dv);
    return s == own;
}

namespace {

void check_pool(const Tensor& pool, const Sizes& c, bool written) {
    const Shape &got = pool.shape(), &want = c.state_shape;
    if (got.ndim() != 4 || got[1] != want[1] || got[2] != want[2] || got[3] != want[3])
        fail("state: ", got.text(), ", expected slots×", Shape{want[1], want[2], want[3]}.text(),
             ", a pool of states, as state_indices is given");
    check_slots(c.slots, want[0], pool, written);
}

}  // namespace

void check_state(const Tensor& state, const Tensor& v, const Sizes& c, bool written) {
    if (!c.slots.empty()) check_pool(state, c, written);
    else if (!is_state_shape(state.shape(), v, c))
        fail("state: ", state.shape().text(), ", expected ", c.state_shape.text());
    if (c.compute == DType::f64 && state.dtype() != DType::f64)
        fail("state: ", name(state.dtype()), ", expected Float64 like q");
    if (c.compute == DType::f32 && state.dtype() == DType::f64) fail("state: Float64, expected Float32");
}

Tensor states_of(const Tensor& state, const Sizes& c) {
    if (!c.slots.empty()) return from_slots(state, c.slots, c.compute);
    return (state.dtype() == c.compute ? state.copy() : state.to(c.compute)).reshape(c.state_shape);
}

Tensor first_states(const Sizes& c, const LinearOptions& o) {
    if (o.state) return states_of(*o.state, c);
    if (!c.slots.empty()) fail("state_indices: given, but no state, expected the pool of their slots as it");
    if (o.inplace) fail("inplace: true, but no state is given, expected one to write to");
    return Tensor::zeros(c.compute, c.state_shape);
}

void write_states(const Tensor& states, const Sizes& c, Tensor& state) {
    if (!c.slots.empty()) return to_slots(states, c.slots, state);
    copy_to(states, state);
}

Call check(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions& o) {
    Call c{check_sizes(q, k, v, o), q, k, v, {}, {}, {}};
    const auto rows_of = [&](const Tensor& x) { return (o.qk_l2norm ? l2norm(x) : x).to(c.compute); };
    c.q = rows_of(q), c.k = rows_of(k), c.v = v.to(c.compute);
    if (has_gate(c.update)) {
        c.log_decay = each_head_of(*o.log_decay, c.compute, {c.batch, c.heads, c.N, c.gates});
        check_log_decay(c.log_decay);
    }
    if (has_delta(c.update)) c.beta = each_head_of(*o.beta, c.compute, {c.batch, c.heads, c.N, 1});
    c.state = first_states(c, o);
    return c;
}

}  // namespace gated

namespace {

using gated::Call;

template <class T>
LinearResult compute(const gated::Runner& runner, Call& call, Index checkpoint_every) {
    Tensor O(dtype_of<T>, call.output);
    auto p = gated::problem_of<T>(call);
    p.O = O.data<T>();
    p.S = call.state.data<T>();
    std::optional<Tensor> checkpoints;
    const auto run = [&](const auto& problem) { kit::computing_in<T>(runner)(problem); };
    if (checkpoint_every > 0) checkpoints = gated::run_with_checkpoints<T>(p, checkpoint_every, run);
    else run(p);
    return {O.to(call.dtype), call.state, checkpoints};
}

}  // namespace

LinearResult gated::linear_attention_by(const Runner& runner, const Tensor& q, const Tensor& k, const Tensor& v,
                                        const LinearOptions& o) {
    calls::check_around(o);
    if (o.A_log || calls::has_norm(o)) {
        LinearResult out = linear_attention_by(runner, q, k, v, within(q, k, v, o));
        if (calls::has_norm(o)) out.O = rms_norm(out.O, calls::norm_of<NormOptions>(o));
        return out;
    }
    Call call = check(q, k, v, o);
    LinearResult out = call.compute == DType::f64 ? compute<double>(runner, call, o.checkpoint_every)
                                                  : compute<float>(runner, call, o.checkpoint_every);
    if (!o.inplace) return out;
    Tensor given = *o.state;
    gated::write_states(out.state, call, given);
    out.state = given;
    return out;
}

LinearResult linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions& o) {
    const gated::Mode& mode = gated::modes()[o.mode];
    return gated::linear_attention_by({mode.f32, mode.f64}, q, k, v, o);
}

LinearResult linear_attention_counted(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions& o,
                                      OperationCount& count) {
    calls::refuse_around(o, "a counted call");
    const Call call = gated::check(q, k, v, o);
    if (o.checkpoint_every > 0) fail("checkpoint_every: given, but counted calls keep no states");
    if (o.inplace) fail("inplace: true, but counted calls leave the state as it is");
    const auto cq = to_counted(call.q), ck = to_counted(call.k), cv = to_counted(call.v);
    const auto cg = to_counted(call.log_decay), cb = to_counted(call.beta);
    auto state = to_counted(call.state);
    Buffer<Counted> out(call.output.size());
    auto p = call.problem<Counted>();
    p.q = cq.data(), p.k = ck.data(), p.v = cv.data();
    p.g = gated::has_gate(call.update) ? cg.data() : nullptr;
    p.beta = gated::has_delta(call.update) ? cb.data() : nullptr;
    p.O = out.data(), p.S = state.data();
    p.scale = call.scale;
    const CountsOfThisCall counts;
    call.mode->counted(p);
    count += counted;
    return {from_counted(out, call.dtype, call.output), from_counted(state, call.compute, call.state_shape), {}};
}

}  // namespace causeway
