// The fast forms of the gradients, one per file.
#pragma once

#include "core/gradient/problem.hpp"
#include "core/gradient/softmax.hpp"

namespace causeway::gradient {

// core/gradient/chunkwise.cpp: chunks of p.in.chunk tokens.
template <class T>
void run_chunkwise_grad(const GradProblem<T>& p);

// core/gradient/softmax_attention_grad.cpp: tiles of queries and keys, from the outputs of the forward pass.
template <class T>
void run_flash_grad(const SoftmaxGradProblem<T>& p);

}  // namespace causeway::gradient
