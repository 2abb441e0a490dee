// The options of packed sequences and of pools of states, which several calls have.
#pragma once

#include "core/calls/layout.hpp"

namespace causeway::calls {

template <class S>
Option<S> cu_seqlens_option(const char* text) {
    return {.name = "cu_seqlens",
            .member = &S::cu_seqlens,
            .text = text,
            .standard = "one sequence",
            .gpu = Effect::refused,
            .why = "sequences are not packed",
            .example = "cu_seqlens = {0, 30, 100}"};
}

template <class S>
Option<S> state_indices_option(const char* text, const char* example) {
    return {.name = "state_indices",
            .member = &S::state_indices,
            .text = text,
            .standard = "none",
            .gpu = Effect::refused,
            .why = "states have no pool",
            .example = example};
}

// Of a call on whole sequences.
template <class S>
Option<S> inplace_option(const char* example) {
    return {.name = "inplace",
            .member = &S::inplace,
            .text = "whether the states after the last tokens are written to the given state, rounded to its type",
            .gpu = Effect::refused,
            .why = "the states are returned in a tensor of their own",
            .in_place = "state",
            .example = example};
}

}  // namespace causeway::calls
