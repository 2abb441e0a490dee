// The fast forms of softmax attention, over all heads of a call and all threads.
#pragma once

#include "core/softmax/problem.hpp"

namespace causeway::softmax {

// Tiled online softmax for T = float, double. O(rows·M·(d + dv)) time; memory of a tile per thread, and where there are
// few queries, so that the keys are shared out among the threads, up to 64 partial outputs of a block of 192 queries.
// The result does not depend on the number of threads. Throws OutOfMemory, Interrupted, Timeout.
template <class T>
void run_flash(const Problem<T>&);

// At most this many rows at a time go through run_part.
inline constexpr Index part_rows = 192;

// Rows [from, to) of a head, to - from <= part_rows, over its keys 0 ... keys - 1 alone, on the calling thread:
// numerators Σ_j e^{s_ij - m_i} v_j in O [rows, dv], m and l [rows]; of a row that attends to none of them 0, -Inf and
// 0. h.limit, of which M may be larger than the keys that are there, says which keys a row attends to; h.O, h.m and h.l
// are not used. O(rows·keys·(d + dv)) time, memory of a tile. Throws OutOfMemory, Interrupted, Timeout.
template <class T>
void run_part(const Head<T>& h, Index from, Index to, Index keys, T* O, T* m, T* l);

// The definition, rows spread over the threads.
template <class T>
void run_standard(const Problem<T>&);

}  // namespace causeway::softmax
