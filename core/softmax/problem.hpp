// What softmax attention computes (tree, Section 3, eq. 16), with the scores shifted by their maximum (tree, Appendix
// F):
//
//   s_ij = scale · q_i·k_j                          for the keys j that query i attends to
//   m_i  = max_j s_ij,   l_i = Σ_j e^{s_ij - m_i}
//   o_i  = Σ_j e^{s_ij - m_i} v_j / l_i,            F_i = m_i + log l_i, the log-sum-exp of its scores
//
// Causal: the N queries are the last N of the M positions, so query i (from 0) attends to the keys 0 ... M - N + i.
// Without any key o_i = 0, m_i = -Inf and l_i = 0.
#pragma once

#include <limits>

#include "core/kit/online_softmax.hpp"
#include "core/kit/views.hpp"

namespace causeway::attention {

using namespace kit;  // views, products and panels by their plain names

// One head, and where its outputs go.
template <class T>
struct Head : AttentionHead<T> {
    T* O = nullptr;  // [group, N, dv], like the next two not read
    T* m = nullptr;  // [group, N]
    T* l = nullptr;  // [group, N]
};

// All heads of a call, checked and contiguous.
template <class T>
struct Problem {
    Index batch = 1, heads = 1, group = 1;  // heads of k and v; of q there are heads · group
    Index N = 0, M = 0, d = 0, dv = 0;
    bool causal = false;
    const T* q = nullptr;  // [batch, heads · group, N, d]
    const T* k = nullptr;  // [batch, heads, M, d]
    const T* v = nullptr;  // [batch, heads, M, dv]
    T* O = nullptr;        // [batch, heads · group, N, dv]
    T* m = nullptr;        // [batch, heads · group, N]
    T* l = nullptr;        // [batch, heads · group, N]
    T scale = T(1);

    Index all_heads() const { return batch * heads; }

    Head<T> head(Index h) const {
        Head<T> out;
        out.rows = group * N, out.N = N, out.M = M, out.d = d, out.dv = dv, out.causal = causal;
        out.q = q + h * out.rows * d;
        out.k = k + h * M * d;
        out.v = v + h * M * dv;
        out.O = O ? O + h * out.rows * dv : nullptr;
        out.m = m ? m + h * out.rows : nullptr;
        out.l = l ? l + h * out.rows : nullptr;
        out.scale = scale;
        return out;
    }
};

}  // namespace causeway::attention
