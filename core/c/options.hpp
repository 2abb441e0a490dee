// What several calls of the C interface read of their options, and what becomes of states that are written in place.
#pragma once

#include <optional>
#include <vector>

#include "core/base/error.hpp"
#include "core/c/arrays.hpp"
#include "core/c/guard.hpp"

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
    step(advanced, result);
    Outputs outputs;
    if (!result.is_view()) outputs.add("O", result, O);
    if (!advanced.is_view()) write(advanced, *state);
    outputs.deliver();
}

}  // namespace causeway::c
