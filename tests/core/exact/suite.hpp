// What every method must pass, as functions of a list of methods that the registry knows: all of them, or one that a
// test has added.
#pragma once

#include <list>

#include "core/exact/registry.hpp"

namespace causeway::test {

using Methods = std::list<exact::Method>;

// methods_test.cpp: against the definition in Float64.
void equal_the_definition_for_every_option(const Methods&);
void equal_the_definition_at_any_width(const Methods&);
void equal_the_definition_at_length_1000(const Methods&);
void equal_the_definition_on_a_long_head(const Methods&);
void sum_nothing_to_zero(const Methods&);
void give_exact_zeros_and_take_denormals(const Methods&);
void take_strong_decay(const Methods&);

// properties_test.cpp
void are_causal(const Methods&);
void keep_infinities_where_they_are(const Methods&);
void carry_their_state(const Methods&);
void end_in_the_sum_of_outer_products(const Methods&);
void do_not_depend_on_the_number_of_threads(const Methods&);
void need_memory_that_grows_as_they_say(const Methods&);

// counts_test.cpp: the definition's operations and memory.
void cost_what_their_closed_forms_say(const Methods&);

}  // namespace causeway::test
