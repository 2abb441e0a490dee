// The fast forms of the gradients, one per file.
#pragma once

#include "core/gradient/problem.hpp"

namespace causeway::gradient {

// core/gradient/chunkwise.cpp: chunks of p.in.chunk tokens.
template <class T>
void run_chunkwise_grad(const GradProblem<T>& p);

}  // namespace causeway::gradient
