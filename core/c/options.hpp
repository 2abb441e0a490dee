// What several calls of the C interface read of their options, and what becomes of states that are written in place.
#pragma once

#include <optional>
#include <vector>

#include "core/base/error.hpp"
#include "core/c/arrays.hpp"
#include "core/c/guard.hpp"
#include "core/exact/causal_linear_attention.hpp"
#include "core/kit/packed.hpp"

namespace causeway::c {

inline void check_wanted(const char* name, const void* output) {
    if (!output) fail(name, ": NULL, expected a place for the result");
}

// Numbers of a list that is given by its first one and a count. Throws Error naming it.
template <class To, class T>
std::vector<To> read_numbers(const char* name, const T* numbers, std::int64_t count) {
    if (count < 0) fail(name, "_count: ", count, ", expected 0 or more");
    if (count > 0 && !numbers) fail(name, ": NULL, expected ", count, " numbers");
    std::vector<To> list;
    for (std::int64_t i = 0; i < count; ++i) list.push_back(static_cast<To>(numbers[i]));
    return list;
}

inline std::optional<double> read_number(const double* number) {
    if (!number) return {};
    return *number;
}

// The options of packed sequences, pools of states and checkpoints, which structs of several calls have.
template <class Options, class Given>
void read_sequences(const Given& o, Options& options) {
    options.cu_seqlens = read_numbers<Index>("cu_seqlens", o.cu_seqlens, o.cu_seqlens_count);
    options.state_indices = read_numbers<Index>("state_indices", o.state_indices, o.state_indices_count);
    options.inplace = o.inplace != 0;
    if (options.inplace) {
        if (!o.state) fail("state: NULL, expected the states that are written in place");
        check_places("state", *o.state);
    }
    options.checkpoint_every = static_cast<Index>(o.checkpoint_every);
    if (o.checkpoint_every != 0) check_wanted("checkpoints", o.checkpoints);
    else if (o.checkpoints) fail("checkpoints: wanted, but checkpoint_every is 0");
    if (o.deterministic) options.deterministic = o.deterministic;
}

// Throws Error where an output that has data does not fit what a call of whole sequences will return: it may write
// states in place, and must not fail after that. `output` and `states`, of all sequences and in the type of
// computation, are forms without elements; check(name, form, array) looks at one.
template <class Options, class Given, class Check>
void check_results(const Options& options, const Given& o, Index batch, Index N, const Tensor& output,
                   const Tensor& states, const causeway_tensor* O, const causeway_tensor* state, Check&& check) {
    check("O", output, O);
    check("state", options.inplace ? Tensor::shaped(options.state->dtype(), options.state->shape()) : states, state);
    const Index every = options.checkpoint_every;
    if (every <= 0) return;  // what is below 0 is refused by the call
    Index kept = 0;
    if (options.cu_seqlens.empty()) kept = batch * (N / every);
    else
        for (const kit::Span& span : kit::packed_spans(options.cu_seqlens, batch, N)) kept += span.n / every;
    const Shape& one = states.shape();
    check("checkpoints", Tensor::shaped(states.dtype(), {kept, one[1], one[2], one[3]}), o.checkpoints);
}

// The same for what the checks of gated linear attention say of a call.
template <class Sizes, class Options, class Given, class Check = decltype(&check_output)>
void check_results(const Sizes& n, const Options& options, const Given& o, const causeway_tensor* O,
                   const causeway_tensor* state, Check check = &check_output) {
    check_results(options, o, n.batch, n.N, Tensor::shaped(n.dtype, n.output), Tensor::shaped(n.compute, n.state_shape),
                  O, state, check);
}

// The same for those of causal linear attention; V is a form.
template <class Options, class Given, class Check = decltype(&check_output)>
void check_causal_results(const exact::Dimensions& n, const Tensor& V, const Options& options, const Given& o,
                          const causeway_tensor* O, const causeway_tensor* state, Check check = &check_output) {
    const auto packed = [&] { return static_cast<Index>(kit::packed_spans(options.cu_seqlens, n.batch, n.N).size()); };
    const Shape states{options.cu_seqlens.empty() ? n.batch : packed(), n.state_heads(), n.r,
                       n.d + (options.normalize ? 1 : 0)};
    check_results(options, o, n.batch, n.N, Tensor::shaped(n.dtype, exact::output_shape(V, n)),
                  Tensor::shaped(n.dtype == DType::f64 ? DType::f64 : DType::f32, states), O, state, check);
}

// The options of a call as a struct of core or of gpu, whose tensors read(name, array) makes, an optional one each.
template <class Options, class Read>
Options causal_options(const causeway_causal_options& o, Read&& read) {
    Options options;
    if (o.method) options.method = o.method;
    options.decay = read_numbers<double>("decay", o.decay, o.decay_count);
    options.normalize = o.normalize != 0;
    if (o.block != 0) options.block = static_cast<Index>(o.block);
    options.scale = read_number(o.scale).value_or(options.scale);
    options.state = read("state", o.state);
    read_sequences(o, options);
    return options;
}
template <class Options, class Read>
Options linear_options(const causeway_linear_options& o, Read&& read) {
    Options options;
    if (o.update) options.update = o.update;
    if (o.mode) options.mode = o.mode;
    if (o.chunk != 0) options.chunk = static_cast<Index>(o.chunk);
    options.scale = read_number(o.scale).value_or(options.scale);
    options.qk_l2norm = o.qk_l2norm != 0;
    options.log_decay = read("log_decay", o.log_decay);
    options.beta = read("beta", o.beta);
    options.state = read("state", o.state);
    read_sequences(o, options);
    return options;
}
template <class Options, class Read>
Options general_options(const causeway_general_options& o, Read&& read) {
    Options options;
    if (o.mode) options.mode = o.mode;
    if (o.chunk != 0) options.chunk = static_cast<Index>(o.chunk);
    options.scale = read_number(o.scale).value_or(options.scale);
    options.a = read("a", o.a);
    options.u = read("u", o.u);
    options.w = read("w", o.w);
    options.state = read("state", o.state);
    read_sequences(o, options);
    return options;
}
template <class Options>
Options softmax_options(const causeway_softmax_options& o) {
    Options options;
    if (o.method) options.method = o.method;
    options.scale = read_number(o.scale);
    options.causal = o.sees_all_keys == 0;
    options.cu_seqlens = read_numbers<Index>("cu_seqlens", o.cu_seqlens, o.cu_seqlens_count);
    return options;
}

// Hands out the gradients that are wanted, of core or of gpu.
template <class Results, class Gradient>
void deliver_gradients(Results&& outputs, const Gradient& result, const causeway_linear_gradients& wanted) {
    outputs.add("dq", result.dq, wanted.dq);
    outputs.add("dk", result.dk, wanted.dk);
    outputs.add("dv", result.dv, wanted.dv);
    outputs.add("dlog_decay", result.dlog_decay, wanted.dlog_decay);
    outputs.add("dbeta", result.dbeta, wanted.dbeta);
    outputs.add("dinitial", result.dstate, wanted.dinitial);
    outputs.deliver();
}
template <class Results, class Gradient>
void deliver_gradients(Results&& outputs, const Gradient& result, const causeway_general_gradients& wanted) {
    outputs.add("dq", result.dq, wanted.dq);
    outputs.add("dk", result.dk, wanted.dk);
    outputs.add("dv", result.dv, wanted.dv);
    outputs.add("da", result.da, wanted.da);
    outputs.add("du", result.du, wanted.du);
    outputs.add("dw", result.dw, wanted.dw);
    outputs.add("dinitial", result.dstate, wanted.dinitial);
    outputs.deliver();
}

// Hands out what a call of whole sequences returned. States that were written in place, but could not be read where
// they lie, are written back; `state` may then be NULL.
template <class Result, class Given>
void deliver_sequences(const Result& result, const Given& o, causeway_tensor* O, causeway_tensor* state) {
    Outputs outputs;
    outputs.add("O", result.O, O);
    outputs.add("state", result.state, state);
    if (o.checkpoints) outputs.add("checkpoints", result.checkpoints, o.checkpoints);
    outputs.deliver();
    if (o.inplace != 0 && result.state.raw() != o.state->data) write(result.state, *o.state);
}

// Runs a step, step(state, O), on the states where they lie, or on a copy that is written back; `shape` and q's type
// are those of the output.
template <class Step>
void step(const Tensor& q, const Shape& shape, causeway_tensor* state, causeway_tensor* O, Step&& step) {
    Tensor advanced = read("state", state);
    check_places("state", *state);
    Tensor result = O->data ? read("O", O) : Tensor(q.dtype(), shape);
    Outputs outputs;  // made before the state changes: nothing may fail after that
    if (!result.is_view()) outputs.add("O", result, O);
    step(advanced, result);
    if (!advanced.is_view()) write(advanced, *state);
    outputs.deliver();
}

}  // namespace causeway::c
