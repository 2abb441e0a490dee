// The products of one chunk of the backward pass in register tiles, on the operands of chunk_operands.hpp and with the
// letters of chunkwise.hpp. Products that end in the same tile of dq, dk, dv or dS share its registers; what the gate
// of a head gets is made of dot products on rows of those tiles, and of sums over Z = dA ⊙ A + dM ⊙ M.
#pragma once

#include "core/gradient/chunk_operands.hpp"

// A tile stays in registers only where what works on it is inlined. The functions that several kinds of tile share are
// therefore always_inline: called, they made the whole backward pass 5 to 7 % slower.
namespace causeway::gradient {

// Σ of a row of a tile times the numbers from x on, `columns` of which count.
template <int NV, class T>
inline __attribute__((always_inline)) T dot(const simd::Vector<T> (&row)[NV], const T* x, Index columns) {
    constexpr Index L = simd::lanes<T>;
    simd::Vector<T> sum = {};
    for (int v = 0; v < NV; ++v)
        sum += row[v] * (columns >= NV * L ? simd::load(x + v * L) : simd::load_part(x + v * L, columns - v * L));
    return simd::sum<T>(sum);
}

template <int R, int NV, class T>
inline __attribute__((always_inline)) void scale_rows(simd::Tile<T, R, NV>& t, const T* factors, T sign = T(1)) {
    for (int row = 0; row < R; ++row)
        for (int v = 0; v < NV; ++v) t.acc[row][v] *= sign * factors[row];
}

// t += rows i ... of the lower triangular X times the rows of Y (panels, already at the columns); `first` = 1
// leaves out the diagonal.
template <int first, int R, int NV, class T>
inline __attribute__((always_inline)) void add_lower(ChunkOperands<T>& op, simd::Tile<T, R, NV>& t, const T* X,
                                                     const T* Y, Index i) {
    constexpr Index L = simd::lanes<T>, W = panel_width<T>;
    t.multiply(X + i * op.keys, op.keys, 1, Y, W, i);
#pragma GCC unroll 16
    for (int k = 0; k < R; ++k) {
        simd::Vector<T> value[NV];
        for (int v = 0; v < NV; ++v) value[v] = simd::load(Y + (i + k) * W + v * L);
#pragma GCC unroll 16
        for (int row = k + first; row < R; ++row)
            for (int v = 0; v < NV; ++v) t.acc[row][v] += X[(i + row) * op.keys + i + k] * value[v];
    }
}

// The same with Xᵀ.
template <int first, int R, int NV, class T>
inline __attribute__((always_inline)) void add_lower_transposed(ChunkOperands<T>& op, simd::Tile<T, R, NV>& t,
                                                                const T* X, const T* Y, Index i) {
    constexpr Index L = simd::lanes<T>, W = panel_width<T>;
#pragma GCC unroll 16
    for (int k = 0; k < R; ++k) {
        simd::Vector<T> value[NV];
        for (int v = 0; v < NV; ++v) value[v] = simd::load(Y + (i + k) * W + v * L);
#pragma GCC unroll 16
        for (int row = 0; row <= k - first; ++row)
            for (int v = 0; v < NV; ++v) t.acc[row][v] += X[(i + k) * op.keys + i + row] * value[v];
    }
    t.multiply(X + (i + R) * op.keys + i, 1, op.keys, Y + (i + R) * W, W, op.n - i - R);
}

// into = sign · X Uᵀ up to the diagonal: dA or dM; with a gate per head times Λ, and Z += sign · X Uᵀ ⊙ scores.
template <class T>
inline void score_gradients(ChunkOperands<T>& op, const T* X, T sign, const T* scores, T* into) {
    constexpr Index L = simd::lanes<T>, W = panel_width<T>;
    op.each_score_tile([&](auto rows, auto vectors, Index i, Index key) {
        constexpr int R = decltype(rows)::value, NV = decltype(vectors)::value;
        simd::Tile<T, R, NV> t;
        t.clear();
        t.multiply(X + i * op.head.dv, op.head.dv, 1, op.Ut.data() + key * op.head.dv, W, op.head.dv);
        for (int row = 0; row < R; ++row) {
            const Index entry = (i + row) * op.keys + key;
            for (int v = 0; v < NV; ++v) {
                simd::Vector<T> x = sign * t.acc[row][v];
                if (op.per_head) {
                    const simd::Vector<T> lambda = simd::load(op.lambda.data() + entry + v * L);
                    x = lambda == simd::Vector<T>{} ? lambda : x;
                    simd::store(op.Z.data() + entry + v * L,
                                simd::load(op.Z.data() + entry + v * L) + x * simd::load(scores + entry + v * L));
                    x *= lambda;
                }
                simd::store(into + entry + v * L, x);
            }
        }
    });
}

// dU = Aᵀ D + Kw E; with the delta rule dy_t = du_t - Σ_{s>t} M_st dx_s, dx_t = β_t dy_t; dv = dU or dX.
template <int R, int NV, class T>
inline void value_tile(ChunkOperands<T>& op, Index i, Index at) {
    constexpr Index L = simd::lanes<T>, W = panel_width<T>;
    simd::Tile<T, R, NV> t;
    t.clear();
    t.multiply((op.per_channel ? op.Kw.data() : op.K) + i * op.key_stride(), op.key_stride(), 1,
               op.E.data() + at * op.head.dk, W, op.head.dk);
    const Index columns = op.head.dv - at;
    if (op.per_head) {
        scale_rows(t, op.w.data() + i);
        for (int row = 0; row < R; ++row)
            op.later[i + row] += dot<NV>(t.acc[row], op.values() + (i + row) * op.value_stride() + at, columns);
    }
    for (Index q = 0; q < op.head.group; ++q)
        add_lower_transposed<0>(op, t, op.A.data() + q * op.c * op.keys,
                                op.Dp.data() + q * op.c * op.wide_v + at * op.c, i);
    T* dV = op.grad.dv + (op.start + i) * op.head.dv + at;
    if (op.delta) {
        T* X = op.Xp.data() + at * op.c;
        simd::Tile<T, R, NV> rest;
        rest.clear();
        rest.multiply(op.M.data() + (i + R) * op.keys + i, 1, op.keys, X + (i + R) * W, W, op.n - i - R);
        for (int row = 0; row < R; ++row)
            for (int v = 0; v < NV; ++v) t.acc[row][v] -= rest.acc[row][v];
#pragma GCC unroll 16
        for (int k = R - 1; k >= 0; --k) {
            op.dbeta[i + k] += dot<NV>(t.acc[k], op.Y.data() + (i + k) * op.wide_v + at, NV * L);
            for (int v = 0; v < NV; ++v) {
                t.acc[k][v] *= op.head.beta[op.start + i + k];
                simd::store(X + (i + k) * W + v * L, t.acc[k][v]);
            }
#pragma GCC unroll 16
            for (int row = 0; row < k; ++row)
                for (int v = 0; v < NV; ++v) t.acc[row][v] -= op.M[(i + k) * op.keys + i + row] * t.acc[k][v];
        }
    }
    for (int row = 0; row < R; ++row) store_row<T, NV>(dV + row * op.head.dv, t.acc[row], columns);
}

// dq = scale · (e ⊙ (dO S_0ᵀ) + (Λ ⊙ dA) K)
template <int R, int NV, class T>
inline void query_tile(ChunkOperands<T>& op, Index q, const T* P, Index i, Index at) {
    constexpr Index W = panel_width<T>;
    simd::Tile<T, R, NV> t;
    t.clear();
    t.multiply(op.output_gradient(q) + i * op.head.dv, op.head.dv, 1, op.St.data() + at * op.wide_v, W, op.head.dv);
    const Index columns = op.head.dk - at;
    if (op.per_head) {
        scale_rows(t, op.e.data() + i);
        for (int row = 0; row < R; ++row)
            op.older[i + row] += dot<NV>(t.acc[row], op.queries(q) + (i + row) * op.head.dk + at, columns);
    }
    add_lower<0>(op, t, P, op.Kp.data() + at * op.c, i);
    T* into = op.grad.dq + (q * op.head.step + op.start + i) * op.head.dk + at;
    for (int row = 0; row < R; ++row) {
        for (int v = 0; v < NV; ++v) t.acc[row][v] *= op.head.scale;
        store_row<T, NV>(into + row * op.head.dk, t.acc[row], columns);
    }
}

// dk = w ⊙ (U Eᵀ) - e ⊙ (dX S_0ᵀ) + (Λ ⊙ dA)ᵀ Q + (Λ ⊙ dM) K + (Λ ⊙ dM)ᵀ K
template <int R, int NV, class T>
inline void key_tile(ChunkOperands<T>& op, Index i, Index at) {
    constexpr Index W = panel_width<T>;
    simd::Tile<T, R, NV> t;
    t.clear();
    const Index columns = op.head.dk - at;
    if (op.delta) {
        t.multiply(op.grad.dv + (op.start + i) * op.head.dv, op.head.dv, 1, op.St.data() + at * op.wide_v, W,
                   op.head.dv);
        const T one[tile_rows] = {1, 1, 1, 1, 1, 1};
        scale_rows(t, op.per_head ? op.e.data() + i : one, T(-1));
        if (op.per_head)
            for (int row = 0; row < R; ++row)
                op.older[i + row] += dot<NV>(t.acc[row], op.K + (i + row) * op.head.dk + at, columns);
        const T* U = op.per_head ? op.Uw.data() : op.U.data();
        t.multiply(U + i * op.wide_v, op.wide_v, 1, op.Et.data() + at * op.wide_v, W, op.head.dv);
    } else {
        t.multiply(op.values() + i * op.head.dv, op.head.dv, 1, op.Et.data() + at * op.wide_v, W, op.head.dv);
        if (op.per_head) scale_rows(t, op.w.data() + i);
    }
    for (Index q = 0; q < op.head.group; ++q)
        add_lower_transposed<0>(op, t, op.dA.data() + q * op.c * op.keys,
                                op.Qp.data() + q * op.c * op.wide_k + at * op.c, i);
    if (op.delta) {
        add_lower<1>(op, t, op.dM.data(), op.Kp.data() + at * op.c, i);
        add_lower_transposed<1>(op, t, op.dM.data(), op.Kp.data() + at * op.c, i);
    }
    for (int row = 0; row < R; ++row)
        store_row<T, NV>(op.grad.dk + (op.start + i + row) * op.head.dk + at, t.acc[row], columns);
}

// dS_0 = e_last ⊙ E + Qeᵀ D - Keᵀ dX, in rows e ...
template <int R, int NV, class T>
inline void state_tile(ChunkOperands<T>& op, Index e, Index at) {
    constexpr Index L = simd::lanes<T>, W = panel_width<T>;
    simd::Tile<T, R, NV> t;
    t.clear();
    if (op.delta) {
        t.multiply(op.Ke.data() + e, 1, op.key_stride(), op.Xp.data() + at * op.c, W, op.n);
        const T one[tile_rows] = {1, 1, 1, 1, 1, 1};
        scale_rows(t, one, T(-1));
    }
    for (Index q = 0; q < op.head.group; ++q)
        t.multiply((op.head.gates > 0 ? op.Qe.data() + q * op.c * op.wide_k : op.queries(q)) + e, 1, op.key_stride(),
                   op.Dp.data() + q * op.c * op.wide_v + at * op.c, W, op.n);
    T* E = op.E.data() + at * op.head.dk + e * W;
    for (int row = 0; row < R; ++row) {
        const T carry = op.per_head ? op.e[op.n - 1] : op.per_channel ? op.e[(op.n - 1) * op.wide_k + e + row] : T(1);
        for (int v = 0; v < NV; ++v)
            simd::store(E + row * W + v * L, carry * simd::load(E + row * W + v * L) + t.acc[row][v]);
    }
}

// With a gate per head, <e_last ⊙ S_0, E>.
template <class T>
inline T through_chunk(const ChunkOperands<T>& op) {
    constexpr Index L = simd::lanes<T>, W = panel_width<T>;
    const T carry = op.e[op.n - 1];
    simd::Vector<T> sum = {};
    for (Index at = 0; at < op.head.dv; at += W)
        for (Index e = 0; e < op.head.dk; ++e)
            for (Index v = 0; v < std::min(W, op.head.dv - at); v += L) {
                const Index place = at * op.head.dk + e * W + v;
                sum += carry * simd::load(op.E.data() + place) * simd::load(op.S0 + place);
            }
    return simd::sum<T>(sum);
}

// dg_s = Σ_{t>=s} (Σ_{j<s} Z_tj + older_t) + Σ_{j<s} later_j + what passes through the chunk: rows of Z are added from
// the last to row s, and of these sums the first s.
template <class T>
inline void gate_gradients(ChunkOperands<T>& op) {
    constexpr Index L = simd::lanes<T>;
    const T through = through_chunk(op);
    T* columns = op.Z.data() + (op.n - 1) * op.keys;  // Σ_{t>=s} Z_tj for j < s, in place of the last row
    T older = T(0);
    for (Index s = op.n - 1; s >= 0; --s) {
        const T* row = op.Z.data() + s * op.keys;
        if (row != columns)
            for (Index j = 0; j < s; ++j) columns[j] += row[j];
        older += op.older[s];
        T sum = through + older;
        simd::Vector<T> total = {};
        Index j = 0;
        for (; j + L <= s; j += L) total += simd::load(columns + j);
        total += simd::load_part(columns + j, s - j);
        op.grad.dg[op.start + s] = sum + simd::sum<T>(total);
    }
    T later = T(0);
    for (Index s = 0; s < op.n; ++s) {
        op.grad.dg[op.start + s] += later;
        later += op.later[s];
    }
}

}  // namespace causeway::gradient
