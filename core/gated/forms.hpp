// The fast forms of the family, one per file.
#pragma once

#include "core/gated/problem.hpp"

namespace causeway::gated {

// core/gated/chunkwise.cpp: chunks of p.chunk tokens.
template <class T>
void run_chunkwise(const Problem<T>& p);

}  // namespace causeway::gated
