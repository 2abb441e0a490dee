// What the claims say of any method of causal linear attention, for one that the registry knows.
#pragma once

#include "core/exact/registry.hpp"

namespace causeway::proofs {

void costs_what_it_says(const exact::Method&);  // B1: operations and memory of the definition
void holds_what_it_says(const exact::Method&);  // B1: memory of the form that runs
void rounds_as_it_says(const exact::Method&);   // B7, B9: errors of the form that runs

}  // namespace causeway::proofs
