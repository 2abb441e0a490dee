// The option that says in which order the dimensions of a call's tensors stand. It is one of the shell alone: the
// functions of core and of gpu take [batch, heads, N, d], and lua/bind/layout.cpp changes the order around the call.
#pragma once

#include "core/calls/option.hpp"

namespace causeway::calls {

inline constexpr const char *heads_first = "bhnd", *tokens_first = "bnhd";

inline std::vector<std::string> layouts() { return {heads_first, tokens_first}; }

// Of a call that the GPU has too, where no tensor is rearranged, or, `cpu_alone`, of one that it has not.
template <class S>
Option<S> layout_option(bool cpu_alone = false) {
    return {.name = "layout",
            .member = {},
            .text =
                "order of the dimensions of inputs, gates and results: [batch, heads, N, d], or [batch, N, heads, "
                "d], which is copied to the first order and back; states keep theirs; "
                "?layout has those of other libraries",
            .standard = "\"bhnd\"",
            .choices = layouts,
            .cpu_choice = cpu_alone ? nullptr : tokens_first,
            .example = "layout = \"bnhd\""};
}

}  // namespace causeway::calls
