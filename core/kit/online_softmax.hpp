// Softmax attention of some rows of queries over a piece of their keys, on one thread: what flash attention, its
// gradient and the workers of tree and ring decoding have in common.
#pragma once

#include <limits>

#include "core/base/memory.hpp"  // Index

namespace causeway::kit {

// What is subtracted from scores whose maximum is m. A score of -Inf has no weight, whatever the others are: a maximum
// of -Inf must not be subtracted from itself.
template <class T>
inline T shift_of(const T& m) {
    return m == T(-std::numeric_limits<double>::infinity()) ? T(0) : m;
}

// One head of keys and values with the queries of the `group` heads that share it, which lie one after the other.
// Causal: the N queries are the last N of the M positions, so query i (from 0) attends to the keys 0 ... M - N + i.
template <class T>
struct AttentionHead {
    Index rows = 0, N = 0, M = 0;  // rows = group · N
    Index d = 0, dv = 0;
    bool causal = false;
    const T* q = nullptr;  // [group, N, d]
    const T* k = nullptr;  // [M, d]
    const T* v = nullptr;  // [M, dv]
    T scale = T(1);

    // Number of keys that a row attends to: the first ones.
    Index limit(Index row) const { return causal ? row % N + M - N + 1 : M; }
};

// At most this many rows at a time go through online_softmax: what a tile of keys costs to pack is shared by them.
inline constexpr Index max_softmax_rows = 192;
// Up to so many rows, packing the tiles of keys would cost more than it saves.
inline constexpr Index few_softmax_rows = 3;

// Rows [from, to) of a head, to - from <= max_softmax_rows, over its keys [first, last) alone, for T = float, double:
// m_i = max_j s_ij and l_i = Σ_j e^{s_ij - m_i} with s_ij = scale · q_i·k_j in m and l [rows], and Σ_j e^{s_ij - m_i}
// v_j, with `divide` divided by l_i, in O [rows, dv]. A row that attends to none of the keys has 0, -Inf and 0. h.M may
// be larger than the number of keys that are there. O(rows·keys·(d + dv)) time, memory of a tile. Throws OutOfMemory,
// Interrupted, Timeout.
template <class T>
void online_softmax(const AttentionHead<T>& h, Index from, Index to, Index first, Index last, bool divide, T* O, T* m,
                    T* l);

}  // namespace causeway::kit
