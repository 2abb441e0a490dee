#include "core/exact/causal_linear_attention.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/base/unknown_name.hpp"
#include "core/exact/choice.hpp"
#include "core/kit/check.hpp"
#include "core/kit/packed.hpp"
#include "core/kit/pool.hpp"
#include "core/kit/registry.hpp"
#include "core/kit/spread.hpp"
#include "core/measure/counted_tensor.hpp"

namespace causeway {

using namespace kit;

namespace exact {
namespace {

Dimensions check_inputs_with(const Tensor& B, const Tensor& C, const Tensor& V, bool grouped) {
    const auto b = four_sizes(B, "B"), c = four_sizes(C, "C"), v = four_sizes(V, "V");
    const auto same = [&](const char* name, const Tensor& A, const std::array<Index, 4>& a, int dims) {
        static constexpr const char* what[] = {"batch", "heads", "length", "rank"};
        check_like(name, A, B, "B");
        for (int i = 0; i < dims; ++i) {
            const auto at = static_cast<std::size_t>(i);
            if (i != 1 || !grouped) check_equal(name, what[i], a[at], b[at], "B");
        }
    };
    same("C", C, c, 4);
    same("V", V, v, 3);
    if (!grouped) return {b[0], b[1], b[2], b[3], v[3], B.dtype()};
    const HeadGroups g = check_head_groups(b[1], c[1], v[1], {"B", "C", "V"});
    return {b[0], g.values * g.group, b[2], b[3], v[3], B.dtype(), g.shared_queries, g.group * g.shared_keys, g.group};
}

}  // namespace

Dimensions check_inputs(const Tensor& B, const Tensor& C, const Tensor& V) { return check_inputs_with(B, C, V, false); }

Dimensions check_grouped_inputs(const Tensor& B, const Tensor& C, const Tensor& V) {
    return check_inputs_with(B, C, V, true);
}

Shape output_shape(const Tensor& V, const Dimensions& n) {
    Shape shape = V.shape();
    if (shape.ndim() > 2) shape[shape.ndim() - 3] = n.heads;
    return shape;
}

Tensor repeat_heads(const Tensor& A, Index times) {
    if (times == 1) return A;
    Shape shape = A.shape();
    const int at = shape.ndim() > 3 ? 1 : 0;
    Index heads = 1;
    for (int i = 0; i <= at; ++i) heads *= shape[i];
    shape[at] *= times;
    Tensor out(A.dtype(), shape);
    const std::size_t bytes = heads == 0 ? 0 : static_cast<std::size_t>(A.bytes() / heads);
    for (Index h = 0; bytes > 0 && h < heads * times; ++h)
        std::memcpy(out.raw() + static_cast<std::size_t>(h) * bytes,
                    A.raw() + static_cast<std::size_t>(h / times) * bytes, bytes);
    return out;
}

void check_states(const Dimensions& n, const CausalOptions& o) {
    const Tensor& state = *o.state;
    const DType compute = n.dtype == DType::f64 ? DType::f64 : DType::f32;
    if (state.dtype() != compute && (compute == DType::f64 || state.dtype() == DType::f64))
        fail("state: ", name(state.dtype()), ", expected ", name(compute));
    const Index wide = n.d + (o.normalize ? 1 : 0);
    const Index sequences = o.cu_seqlens.empty() ? n.batch : static_cast<Index>(o.cu_seqlens.size()) - 1;
    const Shape& got = state.shape();
    if (o.state_indices.empty()) {
        const Shape want{sequences, n.state_heads(), n.r, wide};
        if (got != want) fail("state: ", got.text(), ", expected ", want.text());
        return;
    }
    if (got.ndim() != 4 || got[1] != n.state_heads() || got[2] != n.r || got[3] != wide)
        fail("state: ", got.text(), ", expected slots×", Shape{n.state_heads(), n.r, wide}.text(),
             ", a pool of states, as state_indices is given");
    check_slots(o.state_indices, sequences, state, o.inplace);
}

Tensor states_of(const Dimensions& n, const CausalOptions& o) {
    const DType compute = n.dtype == DType::f64 ? DType::f64 : DType::f32;
    if (!o.state_indices.empty()) return from_slots(*o.state, o.state_indices, compute);
    return o.state->to(compute);
}

void check_deterministic(const CausalOptions& o) {
    if (o.deterministic.empty()) return;
    calls::check_determinism(o.deterministic);
    if (o.deterministic != "prefix" || o.method == "auto" || method(o.method).prefix) return;
    std::vector<std::string> keep;
    for (const Method& m : methods())
        if (m.prefix) keep.push_back(m.name);
    fail("deterministic: \"prefix\", which the method \"", o.method, "\" does not keep", expected_one_of(keep));
}

std::vector<double> check_decay(const std::vector<double>& decay, Index heads) {
    const auto count = static_cast<Index>(decay.size());
    if (count > 1 && heads == 1) fail("decay: ", count, " values, expected 1 for the one head");
    if (count > 1 && count != heads) fail("decay: ", count, " values, expected 1 or ", heads, ", one per head");
    for (double gamma : decay) {
        if (!(gamma > 0 && gamma <= 1)) fail("decay: ", gamma, ", expected a number in (0, 1]");
    }
    if (std::all_of(decay.begin(), decay.end(), [](double gamma) { return gamma == 1; })) return {};
    return count == 1 ? std::vector<double>(static_cast<std::size_t>(heads), decay[0]) : decay;
}

std::vector<double> decay_of_outputs(const std::vector<double>& decay, Index shared) {
    std::vector<double> out;
    for (const double gamma : decay) out.insert(out.end(), static_cast<std::size_t>(shared), gamma);
    return out;
}

}  // namespace exact

namespace {

using exact::causal_linear_attention_by;
using exact::Dimensions;
using exact::Method;
using exact::Problem;

struct Call {
    Dimensions size;
    std::vector<double> gamma;
    const Method* method;
    Index block;
};

const Method& fastest_of(const Dimensions& n, const CausalOptions& o) {
    return exact::fastest({n.dtype == DType::f64 ? DType::f64 : DType::f32, n.batch * n.heads, n.N, n.r, n.d,
                           !exact::check_decay(o.decay, n.state_heads()).empty(), o.normalize,
                           o.state || o.return_state, o.block.value_or(0)});
}

// What "auto" is where the choice must be the same in every call.
constexpr const char* same_everywhere = "lightning-attention-2";

// Whether "auto" takes what is the fastest here.
bool is_measured(const CausalOptions& o) {
    return o.method == "auto" && o.deterministic.empty() && o.checkpoint_every == 0;
}

// The name of the method of a call for which nothing is measured.
std::string unmeasured(const CausalOptions& o) { return o.method == "auto" ? same_everywhere : o.method; }

// Whether the states to start from are in a pool, or in a type that nothing is computed in.
bool has_stored_states(const CausalOptions& o) {
    return o.state && (!o.state_indices.empty() || is_storage_only(o.state->dtype()));
}

Call check(const Tensor& B, const Tensor& C, const Tensor& V, const CausalOptions& o) {
    Call call{exact::check_grouped_inputs(B, C, V), {}, nullptr, 0};
    const auto& n = call.size;
    call.gamma = exact::decay_of_outputs(exact::check_decay(o.decay, n.state_heads()), n.shared_V);
    check_scale(o.scale, n.dtype);
    if (o.block && *o.block < 1) fail("block: ", *o.block, ", expected 1 or more");
    Dimensions longest = n;  // of the packed sequences, each of which is chosen for
    if (!o.cu_seqlens.empty()) {
        longest.N = 0;
        for (const Span& span : packed_spans(o.cu_seqlens, n.batch, n.N)) longest.N = std::max(longest.N, span.n);
    }
    if (!o.state && !o.state_indices.empty())
        fail("state_indices: given, but no state, expected the pool of their slots as it");
    if (o.checkpoint_every < 0) fail("checkpoint_every: ", o.checkpoint_every, ", expected 1 or more, or 0 for none");
    exact::check_deterministic(o);
    const bool state = o.state || o.return_state || o.checkpoint_every > 0;
    call.method = is_measured(o) ? &fastest_of(longest, o) : &exact::method(unmeasured(o));
    if (state && !call.method->state) fail("state: the method \"", call.method->name, "\" carries no state");
    if (o.block && call.method->block == 0) fail("block: the method \"", call.method->name, "\" has none");
    // A block longer than the sequence is the sequence.
    call.block = std::min(o.block.value_or(call.method->block), std::max<Index>(n.N, 1));
    if (o.state) exact::check_states(n, o);
    return call;
}

// All but the elements.
template <class T>
Problem<T> problem_of(const Call& call, bool normalize) {
    Problem<T> p;
    p.batch = call.size.batch;
    p.heads = call.size.heads;
    p.N = call.size.N;
    p.r = call.size.r;
    p.d = call.size.d;
    p.shared_B = call.size.shared_B, p.shared_C = call.size.shared_C, p.shared_V = call.size.shared_V;
    p.gamma = call.gamma.empty() ? nullptr : call.gamma.data();
    p.normalize = normalize;
    p.block = call.block;
    return p;
}

// The states that the heads of the output start from: each its own, also where they share one.
Tensor states_of_outputs(const Dimensions& n, const Tensor& states) {
    return n.shared_V == 1 ? states.copy() : exact::repeat_heads(states, n.shared_V);
}

// Those of the heads of V again: heads of the output that share one have computed the same.
Tensor states_of_values(const Dimensions& n, const Tensor& states) {
    if (n.shared_V == 1) return states;
    Tensor out(states.dtype(), {n.batch, n.state_heads(), states.shape()[2], states.shape()[3]});
    const Index heads = n.batch * n.state_heads();
    const std::size_t bytes = heads == 0 ? 0 : static_cast<std::size_t>(out.bytes() / heads);
    for (Index h = 0; bytes > 0 && h < heads; ++h)
        std::memcpy(out.raw() + static_cast<std::size_t>(h) * bytes,
                    states.raw() + static_cast<std::size_t>(h * n.shared_V) * bytes, bytes);
    return out;
}

template <class T>
void scale_by(Tensor& A, double scale) {
    T* a = A.data<T>();
    const T factor = static_cast<T>(scale);
    const auto scale_block = [&](Index first, Index n) {
        for (Index k = first; k < first + n; ++k) a[k] *= factor;
    };
    each_block(A.size(), scale_block, 1 << 15);
}

template <class T>
CausalResult compute(const exact::Runner& runner, const Call& call, const Tensor& B, const Tensor& C, const Tensor& V,
                     const CausalOptions& o) {
    CausalResult out{Tensor(dtype_of<T>, exact::output_shape(V, call.size)), Tensor()};
    auto p = problem_of<T>(call, o.normalize);
    p.B = B.data<T>();
    p.C = C.data<T>();
    p.V = V.data<T>();
    p.O = out.O.data<T>();
    Tensor state;
    if (o.state || o.return_state) {
        state = o.state ? states_of_outputs(call.size, *o.state)
                        : Tensor::zeros(dtype_of<T>, {p.batch, p.heads, p.r, p.state_width()});
        p.state = state.data<T>();
    }
    kit::computing_in<T>(runner)(*call.method, p);
    // The factor is on B Cᵀ, so on every output; it cancels where the output is divided by row sums.
    if (o.scale != 1 && !o.normalize) scale_by<T>(out.O, o.scale);
    if (o.return_state) out.state = states_of_values(call.size, state);
    return out;
}

}  // namespace

namespace {

// The options of a call whose states are those of its sequences, in their order and in the type of computation.
CausalOptions with_own_states(const Dimensions& n, const CausalOptions& o) {
    CausalOptions own = o;
    if (o.state) own.state = exact::states_of(n, o);
    own.return_state = o.return_state || o.inplace;
    own.inplace = false;
    own.state_indices.clear();
    return own;
}

// A place for the states that are kept of sequences of these lengths, and the first one of each.
Tensor checkpoints_of(const Dimensions& n, const std::vector<Span>& spans, const CausalOptions& o,
                      std::vector<Index>& first) {
    Index all = 0;
    for (const Span& span : spans) {
        first.push_back(all);
        all += span.n / o.checkpoint_every;
    }
    return Tensor(n.dtype == DType::f64 ? DType::f64 : DType::f32,
                  {all, n.state_heads(), n.r, n.d + (o.normalize ? 1 : 0)});
}

// Each packed sequence by call(B, C, V, options) as if it were alone; the states of o are those of the sequences.
template <class Call>
CausalResult each_packed(const Dimensions& n, const Tensor& B, const Tensor& C, const Tensor& V, const CausalOptions& o,
                         bool in_turn, Call&& call) {
    const auto spans = packed_spans(o.cu_seqlens, n.batch, n.N);
    CausalResult out{Tensor(n.dtype, exact::output_shape(V, n)), Tensor()};
    if (o.return_state)
        out.state = Tensor(n.dtype == DType::f64 ? DType::f64 : DType::f32,
                           {static_cast<Index>(spans.size()), n.state_heads(), n.r, n.d + (o.normalize ? 1 : 0)});
    std::vector<Index> first;  // checkpoint of each sequence
    if (o.checkpoint_every > 0) out.checkpoints = checkpoints_of(n, spans, o, first);
    CausalOptions alone = o;  // without the offsets, which a copy for each sequence would have all of
    alone.cu_seqlens.clear();
    const auto compute_one = [&](Index i, const Span& span) {
        CausalOptions one = alone;
        if (o.state) one.state = entry_of(*o.state, i);
        const CausalResult r = call(tokens_of(B, span), tokens_of(C, span), tokens_of(V, span), one);
        put_tokens(out.O, span, r.O);
        if (o.return_state) put_entry(out.state, i, r.state);
        for (Index c = 0; c < span.n / std::max<Index>(o.checkpoint_every, 1) && r.checkpoints; ++c)
            put_entry(*out.checkpoints, first[static_cast<std::size_t>(i)] + c, entry_of(*r.checkpoints, c));
    };
    if (!in_turn) each_sequence(spans, compute_one);
    else
        for (std::size_t i = 0; i < spans.size(); ++i) compute_one(static_cast<Index>(i), spans[i]);
    return out;
}

// "auto" measures the methods where it does not know the fastest yet, which needs the threads that compute the
// sequences side by side: the answers are asked for before.
void choose_before(const Dimensions& n, const CausalOptions& o) {
    if (!is_measured(o)) return;
    Dimensions one = n;
    for (const Span& span : packed_spans(o.cu_seqlens, n.batch, n.N)) {
        one.N = span.n;
        fastest_of(one, o);
    }
}

// The sequences of a batch piece after piece, the states between them kept. A piece is what a call that goes on from
// its state computes, so the bits are the same.
CausalResult in_pieces(const exact::Runner& runner, const Dimensions& n, const Tensor& B, const Tensor& C,
                       const Tensor& V, const CausalOptions& o) {
    std::vector<Index> first;
    CausalResult out{Tensor(n.dtype, exact::output_shape(V, n)), Tensor(),
                     checkpoints_of(n, std::vector<Span>(static_cast<std::size_t>(n.batch), {0, n.N}), o, first)};
    CausalOptions one = o;
    one.method = unmeasured(o);
    one.checkpoint_every = 0;
    one.return_state = true;
    for (Index start = 0, piece = 0; start == 0 || start < n.N; start += o.checkpoint_every, ++piece) {
        const Span span{start, std::min(o.checkpoint_every, n.N - start)};
        const CausalResult r =
            causal_linear_attention_by(runner, tokens_of(B, span), tokens_of(C, span), tokens_of(V, span), one);
        put_tokens(out.O, span, r.O);
        if (span.n == o.checkpoint_every)
            for (Index b = 0; b < n.batch; ++b)
                put_entry(*out.checkpoints, first[static_cast<std::size_t>(b)] + piece, entry_of(r.state, b));
        one.state = r.state;
    }
    if (o.return_state) out.state = *one.state;
    return out;
}

CausalResult in_place(const exact::Runner& runner, const Dimensions& n, const Tensor& B, const Tensor& C,
                      const Tensor& V, const CausalOptions& o) {
    if (!o.state) fail("inplace: true, but no state is given, expected one to write to");
    CausalResult out = causal_linear_attention_by(runner, B, C, V, with_own_states(n, o));
    Tensor given = *o.state;
    if (!o.state_indices.empty()) to_slots(out.state, o.state_indices, given);
    else copy_to(out.state, given);
    out.state = given;
    return out;
}

}  // namespace

CausalResult exact::causal_linear_attention_by(const Runner& runner, const Tensor& B, const Tensor& C, const Tensor& V,
                                               const CausalOptions& o) {
    const Call call = check(B, C, V, o);
    if (o.inplace) return in_place(runner, call.size, B, C, V, o);
    if (has_stored_states(o)) return causal_linear_attention_by(runner, B, C, V, with_own_states(call.size, o));
    if (!o.cu_seqlens.empty()) {
        choose_before(call.size, o);
        return each_packed(call.size, B, C, V, o, false,
                           [&](auto&&... x) { return causal_linear_attention_by(runner, x...); });
    }
    if (o.checkpoint_every > 0) return in_pieces(runner, call.size, B, C, V, o);
    if (call.size.dtype == DType::f64) return compute<double>(runner, call, B, C, V, o);
    CausalResult out = compute<float>(runner, call, B.to(DType::f32), C.to(DType::f32), V.to(DType::f32), o);
    out.O = out.O.to(call.size.dtype);
    return out;
}

CausalResult causal_linear_attention(const Tensor& B, const Tensor& C, const Tensor& V, const CausalOptions& o) {
    static const auto& methods = *new exact::Runner{exact::run<float>, exact::run<double>};
    return exact::causal_linear_attention_by(methods, B, C, V, o);
}

const exact::Method& causal_method(const Tensor& B, const Tensor& C, const Tensor& V, const CausalOptions& o) {
    return *check(B, C, V, o).method;
}

CausalResult causal_linear_attention_counted(const Tensor& B, const Tensor& C, const Tensor& V, const CausalOptions& o,
                                             OperationCount& count) {
    if (o.method == "auto")
        fail("method: \"auto\" names no definition whose operations could be counted, expected the name of a method");
    const Call call = check(B, C, V, o);
    const auto& n = call.size;
    if (o.inplace) fail("inplace: true, but counted calls leave the state as it is");
    if (o.checkpoint_every > 0) fail("checkpoint_every: given, but counted calls keep no states");
    const auto counted_call = [&](auto&&... x) { return causal_linear_attention_counted(x..., count); };
    if (has_stored_states(o)) return counted_call(B, C, V, with_own_states(n, o));
    if (!o.cu_seqlens.empty()) return each_packed(n, B, C, V, o, true, counted_call);
    const Buffer<Counted> b = to_counted(B), c = to_counted(C), v = to_counted(V);
    const Shape output_shape = exact::output_shape(V, n);
    Buffer<Counted> output(output_shape.size()), state;
    auto p = problem_of<Counted>(call, o.normalize);
    p.B = b.data();
    p.C = c.data();
    p.V = v.data();
    p.O = output.data();
    const Shape state_shape{n.batch, n.heads, n.r, p.state_width()};
    if (o.state || o.return_state) {
        state = to_counted(o.state ? states_of_outputs(n, *o.state) : Tensor::zeros(DType::f64, state_shape));
        p.state = state.data();
    }
    {
        const CountsOfThisCall counts;
        exact::run(*call.method, p);
        if (o.scale != 1 && !o.normalize)
            for (Index i = 0; i < output.size(); ++i) output[i] *= Counted(o.scale);
        count += counted;
    }
    CausalResult out{from_counted(output, n.dtype, output_shape), Tensor()};
    if (o.return_state)
        out.state =
            states_of_values(n, from_counted(state, n.dtype == DType::f64 ? DType::f64 : DType::f32, state_shape));
    return out;
}

}  // namespace causeway
