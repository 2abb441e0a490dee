#include "core/gated/general/general_linear_attention.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/parallel.hpp"
#include "core/gated/checkpoints.hpp"
#include "core/gated/general/chunkwise.hpp"
#include "core/gated/general/forms.hpp"
#include "core/gated/general/recurrent.hpp"
#include "core/gated/step.hpp"
#include "core/kit/callers_order.hpp"
#include "core/kit/check.hpp"
#include "core/kit/spread.hpp"
#include "core/measure/counted_tensor.hpp"

namespace causeway {
namespace gated {
namespace {

// The options that linear_attention has too. The rule of the general one has neither log_decay nor beta: what it makes
// of the state is given by a, u and w.
LinearOptions shared_options(const GeneralOptions& o) {
    LinearOptions out;
    out.mode = o.mode, out.chunk = o.chunk, out.scale = o.scale;
    out.state = o.state, out.cu_seqlens = o.cu_seqlens;
    out.state_indices = o.state_indices, out.inplace = o.inplace;
    out.checkpoint_every = o.checkpoint_every, out.deterministic = o.deterministic;
    return out;
}

// `name` is [.., N, d_k], or where `narrow` [.., N], whose leading dimensions are those of v but for the heads, which
// may be fewer. Returns the width of a token, 1 or d_k, and how many states share a head.
std::pair<Index, Index> check_per_token(const char* name, const Tensor& A, const Tensor& v, const Sizes& c,
                                        bool narrow) {
    const Shape& s = A.shape();
    const int lead = v.ndim() - 1;  // dimensions of [b, h, N]
    Shape expected;
    for (int i = 0; i < lead; ++i) expected.push_back(v.shape()[i]);
    Shape wide = expected;
    wide.push_back(c.dk);
    Index shared = 1;
    const auto fits = [&](const Shape& want) {
        if (s.ndim() != want.ndim()) return false;
        for (int i = 0; i < want.ndim(); ++i) {
            if (s[i] == want[i]) continue;
            if (i != lead - 2 || s[i] < 1 || want[i] < s[i] || want[i] % s[i] != 0) return false;
            shared = want[i] / s[i];
        }
        return true;
    };
    if (fits(wide)) return {c.dk, shared};
    shared = 1;
    if (narrow && fits(expected)) return {1, shared};
    fail(name, ": ", kit::callers_sizes(s), ", expected ", kit::callers_sizes(wide),
         narrow ? " or " + kit::callers_sizes(expected) : std::string(), ", or fewer heads that are shared");
}

// f(chunk length, head) for the mode of the call, on all heads.
void count_in_turn(const GeneralCall& call, const GeneralProblem<Counted>& p) {
    each_head_in_turn(p, [&](const auto& h) {
        if (call.mode->name == "recurrent") recurrent(h);
        else chunkwise(h, p.chunk);
    });
}

template <class T>
LinearResult compute(GeneralCall& call, Index checkpoint_every) {
    Tensor O(dtype_of<T>, call.output);
    auto p = call.problem_of<T>();
    p.O = O.data<T>(), p.S = call.state.data<T>();
    const auto run = [&](const GeneralProblem<T>& problem) {
        if (call.mode->name == "recurrent") each_head(problem, [](const auto& h) { recurrent(h); });
        else run_general_chunkwise(problem);
    };
    std::optional<Tensor> checkpoints;
    if (checkpoint_every > 0) checkpoints = run_with_checkpoints<T>(p, checkpoint_every, run);
    else run(p);
    return {O.to(call.dtype), call.state, checkpoints};
}

// A task is a run of heads whose states have about so many bytes, as in core/gated/step.cpp.
constexpr Index bytes_of_task = 1 << 18, bytes_of_one_task = 1 << 20;

// Token t of a head.
template <class T>
GeneralHead<T> token_of(GeneralHead<T> h, Index t) {
    h.N = 1;
    h.q += t * h.dk, h.k += t * h.dk, h.v += t * h.dv, h.O += t * h.dv;
    if (h.a) h.a += t * h.gates;
    if (h.u) h.u += t * h.dk, h.w += t * h.dk;
    return h;
}

// The state has the type of computation, and is a pool where the call has slots.
template <class T>
void step_as(const GeneralCall& call, Tensor& state, Tensor& O, std::vector<Tensor>* states) {
    Tensor wide = call.dtype == call.compute ? O : Tensor(call.compute, call.output);
    auto p = call.problem_of<T>();
    p.slots = call.slots;
    p.O = wide.data<T>(), p.S = state.data<T>();
    const auto advance = [&](Index i) {
        const GeneralHead<T> head = p.head(i);
        if (!states) return general_steps(head);
        for (Index t = 0; t < call.N; ++t) {
            general_steps(token_of(head, t));
            std::copy_n(head.S, call.dk * call.dv,
                        (*states)[static_cast<std::size_t>(t)].template data<T>() + i * call.dk * call.dv);
        }
    };
    const Index bytes = std::max<Index>(call.dk * call.dv * static_cast<Index>(sizeof(T)), 1), all = p.all_heads();
    const Index heads = all * bytes < bytes_of_one_task ? all : std::max<Index>(bytes_of_task / bytes, 1);
    if (all > 0)
        parallel_for((all + heads - 1) / heads, [&](Index task) {
            for (Index i = task * heads; i < std::min(all, (task + 1) * heads); ++i) advance(i);
        });
    if (call.dtype == call.compute) return;
    const Tensor narrow = wide.to(call.dtype);
    std::memcpy(O.raw(), narrow.raw(), narrow.bytes());
}

}  // namespace

GeneralSizes check_general_sizes(const Tensor& q, const Tensor& k, const Tensor& v, const GeneralOptions& o) {
    GeneralSizes c{check_sizes(q, k, v, shared_options(o))};
    if (o.u.has_value() != o.w.has_value())
        fail(o.u ? "w" : "u", ": missing, but ", o.u ? "u" : "w", " is given, expected both or none");
    if (o.a) {
        const auto [width, shared] = check_per_token("a", *o.a, v, c, true);
        c.gates = width, c.a_shared = shared;
    }
    c.erases = o.u.has_value();
    if (o.u) c.u_shared = check_per_token("u", *o.u, v, c, false).second;
    if (o.w) c.w_shared = check_per_token("w", *o.w, v, c, false).second;
    return c;
}

GeneralCall check_general(const Tensor& q, const Tensor& k, const Tensor& v, const GeneralOptions& o) {
    GeneralCall c{check_general_sizes(q, k, v, o), {}, {}, {}, {}, {}, {}, {}};
    c.q = q.to(c.compute), c.k = k.to(c.compute), c.v = v.to(c.compute);
    if (o.a) c.a = o.a->to(c.compute);
    if (o.u) c.u = o.u->to(c.compute), c.w = o.w->to(c.compute);
    c.state = first_states(c, shared_options(o));
    return c;
}

void check_general_step(const GeneralSizes& c, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& state,
                        const Tensor& O, const GeneralOptions& o) {
    if (c.N < 1 || c.N > most_step_tokens)
        fail("q: length ", c.N, ", expected 1 to ", most_step_tokens, " tokens in a step");
    if (o.state) fail("state: given among the options too, expected it as the argument alone");
    if (!o.cu_seqlens.empty()) fail("cu_seqlens: given, but a step has a token of every batch entry");
    if (o.checkpoint_every > 0) fail("checkpoint_every: given, but a step can keep the states after all of its tokens");
    check_state(state, v, c, true);
    if (O.shape() != c.output) fail("O: ", O.shape().text(), ", expected ", c.output.text());
    if (O.dtype() != c.dtype) fail("O: ", name(O.dtype()), ", expected ", name(c.dtype), " like q");
    kit::check_apart("O", O, "state", state);
    const auto check_inputs_apart = [&](const char* name, const Tensor& A) {
        kit::check_apart("state", state, name, A);
        kit::check_apart("O", O, name, A);
    };
    check_inputs_apart("q", q), check_inputs_apart("k", k), check_inputs_apart("v", v);
    if (o.a) check_inputs_apart("a", *o.a);
    if (o.u) check_inputs_apart("u", *o.u), check_inputs_apart("w", *o.w);
}

}  // namespace gated

LinearResult general_linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, const GeneralOptions& o) {
    gated::GeneralCall call = gated::check_general(q, k, v, o);
    LinearResult out = call.compute == DType::f64 ? gated::compute<double>(call, o.checkpoint_every)
                                                  : gated::compute<float>(call, o.checkpoint_every);
    if (!o.inplace) return out;
    Tensor given = *o.state;
    gated::write_states(out.state, call, given);
    out.state = given;
    return out;
}

LinearResult general_linear_attention_counted(const Tensor& q, const Tensor& k, const Tensor& v,
                                              const GeneralOptions& o, OperationCount& count) {
    const gated::GeneralCall call = gated::check_general(q, k, v, o);
    if (o.checkpoint_every > 0) fail("checkpoint_every: given, but counted calls keep no states");
    if (o.inplace) fail("inplace: true, but counted calls leave the state as it is");
    const auto cq = to_counted(call.q), ck = to_counted(call.k), cv = to_counted(call.v);
    const auto ca = to_counted(call.a), cu = to_counted(call.u), cw = to_counted(call.w);
    auto state = to_counted(call.state);
    Buffer<Counted> out(call.output.size());
    gated::GeneralProblem<Counted> p;
    static_cast<gated::Problem<Counted>&>(p) = call.problem<Counted>();
    p.q = cq.data(), p.k = ck.data(), p.v = cv.data();
    if (call.gates > 0) p.a = {ca.data(), call.a_shared, call.gates};
    if (call.erases) p.u = {cu.data(), call.u_shared, call.dk}, p.w = {cw.data(), call.w_shared, call.dk};
    p.O = out.data(), p.S = state.data();
    p.scale = call.scale;
    if (call.mode->name == "parallel") p.chunk = std::max<Index>(call.N, 1);
    const CountsOfThisCall counts;
    gated::count_in_turn(call, p);
    count += counted;
    return {from_counted(out, call.dtype, call.output), from_counted(state, call.compute, call.state_shape), {}};
}

void general_linear_attention_step(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& state, Tensor& O,
                                   const GeneralOptions& o, std::vector<Tensor>* states) {
    using namespace gated;
    const GeneralSizes c = check_general_sizes(q, k, v, o);
    check_general_step(c, q, k, v, state, O, o);
    GeneralCall call{c, q.to(c.compute), k.to(c.compute), v.to(c.compute), {}, {}, {}, {}};
    if (o.a) call.a = o.a->to(c.compute);
    if (o.u) call.u = o.u->to(c.compute), call.w = o.w->to(c.compute);
    if (states) {
        states->clear();
        for (Index t = 0; t < c.N; ++t) states->emplace_back(c.compute, c.state_shape);
    }
    interrupt::check();
    const auto advance = [&](Tensor& S) {
        if (c.compute == DType::f64) step_as<double>(call, S, O, states);
        else step_as<float>(call, S, O, states);
    };
    if (state.dtype() == c.compute) return advance(state);
    Tensor wide = states_of(state, c);
    call.slots.clear();
    advance(wide);
    write_states(wide, c, state);
}

}  // namespace causeway
