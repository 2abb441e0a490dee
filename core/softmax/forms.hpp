// The fast forms of softmax attention, over all heads of a call and all threads.
#pragma once

#include "core/softmax/problem.hpp"

namespace causeway::attention {

// Tiled online softmax for T = float, double. O(rows·M·(d + dv)) time; memory of a tile per thread, and where there are
// few queries, so that the keys are shared out among the threads, up to 64 partial outputs of a block of 192 queries.
// The result does not depend on the number of threads. Throws OutOfMemory, Interrupted, Timeout.
template <class T>
void run_flash(const Problem<T>&);

// The definition, rows spread over the threads.
template <class T>
void run_standard(const Problem<T>&);

}  // namespace causeway::attention
