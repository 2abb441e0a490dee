// The forms of the general rule that run.
#pragma once

#include "core/gated/general/problem.hpp"
#include "core/measure/counting.hpp"

namespace causeway::gated {

// core/gated/general/chunkwise.cpp: chunks of p.chunk tokens.
template <class T>
void run_general_chunkwise(const GeneralProblem<T>& p);

// core/gated/general/step.cpp: h.N tokens, one after the other.
template <class T>
void general_steps(const GeneralHead<T>& h);

}  // namespace causeway::gated
