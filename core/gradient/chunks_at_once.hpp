// The chunkwise gradient where heads are fewer than threads.
#pragma once

#include "core/gradient/problem.hpp"

namespace causeway::gradient {

// As chunkwise.hpp, to the bit of one thread a head. First, with the delta rule, the scores of all chunks at once.
// Then, of every head, columns of the values on threads of their own, which never meet in a state: the states before
// all chunks, and in reverse the gradients of the states after them. Then all chunks at once; what the gradients of the
// states are made of is computed twice. Memory beside the operands of a chunk a thread: two states a chunk, the scores,
// and once more the values, dO and, with heads of queries that share a state, q.
template <class T>
void run_chunks_at_once(const GradProblem<T>& p);

}  // namespace causeway::gradient
