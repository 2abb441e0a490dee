// The options of packed sequences and of pools of states, which several calls have.
#pragma once

#include "core/calls/layout.hpp"
#include "core/kit/check.hpp"

namespace causeway::calls {

template <class S>
Option<S> cu_seqlens_option(const char* text) {
    return {.name = "cu_seqlens",
            .member = &S::cu_seqlens,
            .text = text,
            .standard = "one sequence",
            .example = "cu_seqlens = {0, 30, 100}"};
}

template <class S>
Option<S> state_indices_option(const char* text, const char* example) {
    return {.name = "state_indices", .member = &S::state_indices, .text = text, .standard = "none", .example = example};
}

// What a call may promise of its bits: the same in every run; besides, for a packed sequence those of a call on it
// alone; or up to a token the same whatever comes after it and stands beside it.
inline std::vector<std::string> determinisms() { return {"run", "alone", "prefix"}; }
// Throws Error for any other promise. The list is made only then: a step allocates nothing.
inline void check_determinism(const std::string& promise) {
    if (promise != "run" && promise != "alone" && promise != "prefix")
        kit::check_choice("deterministic", promise, determinisms());
}

// Whether workers that share a call are to give the bits of one.
inline bool asks_for_bits_of_one(const std::string& promise) { return promise == "alone" || promise == "prefix"; }

// prefix_on_gpu: whether the call keeps "prefix" on a GPU.
template <class S>
Option<S> deterministic_option(const char* text, const char* standard, bool prefix_on_gpu = false) {
    return {.name = "deterministic",
            .member = &S::deterministic,
            .text = text,
            .standard = standard,
            .choices = determinisms,
            .cpu_choice = prefix_on_gpu ? nullptr : "prefix",
            .example = "deterministic = \"prefix\""};
}

template <class S>
Option<S> checkpoint_every_option(const char* example) {
    return {.name = "checkpoint_every",
            .member = &S::checkpoint_every,
            .text =
                "returns the states after every so many tokens of a sequence too; a call that goes on from one of "
                "them with this option has the bits of this one",
            .standard = "none",
            .min = 1,
            .example = example};
}

// Of a call on whole sequences.
template <class S>
Option<S> inplace_option(const char* example) {
    return {.name = "inplace",
            .member = &S::inplace,
            .text = "whether the states after the last tokens are written to the given state, rounded to its type",
            .in_place = "state",
            .example = example};
}

// Of a step of a few tokens, and its inputs in examples.
template <class S>
std::vector<Option<S>> of_steps() {
    return {{.name = "inplace",
             .member = &S::inplace,
             .text = "whether the given state itself is advanced and returned, without a copy",
             .in_place = "state"},
            {.name = "keep_states",
             .member = &S::keep_states,
             .text = "whether the states after each token are returned too, as an array"}};
}
inline constexpr const char* step_inputs =
    "q, k, v = randn(1, 2, 1, 8), randn(1, 2, 1, 8), randn(1, 2, 1, 8)\nstate = zeros(1, 2, 8, 8)";

}  // namespace causeway::calls
