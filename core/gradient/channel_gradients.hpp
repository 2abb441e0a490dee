// What a chunk of the backward pass does differently with a gate per key channel: Λ stands inside the inner products,
// which are split into pairs of blocks as in the forward pass (core/gated/gates.hpp).
#pragma once

#include "core/gradient/chunk_operands.hpp"

namespace causeway::gradient {

// product = rows of X (n rows of dv, `stride` apart) times the panels of Y.
template <class T>
void wide_product(ChunkOperands<T>& op, const T* X, Index stride, const T* Y) {
    constexpr Index W = panel_width<T>;
    op.each_tile(op.n, op.wide_k, [&](auto rows, auto vectors, Index i, Index at) {
        constexpr int R = decltype(rows)::value, NV = decltype(vectors)::value;
        simd::Tile<T, R, NV> t;
        t.clear();
        t.multiply(X + i * stride, stride, 1, Y + at * op.wide_v, W, op.head.dv);
        for (int row = 0; row < R; ++row)
            store_row<T, NV>(op.product.data() + (i + row) * op.wide_k + at, t.acc[row], op.wide_k - at);
    });
}

// product [rows] = block X [rows × count] of a score matrix, or its transpose, times rows of Y.
template <class T>
void block_product(ChunkOperands<T>& op, const T* X, bool transposed, Index rows, const T* Y, Index count) {
    constexpr Index L = simd::lanes<T>, W = panel_width<T>;
    for (Index at = 0; at < op.wide_k; at += W) {
        each_row_tile(rows, [&](auto tile_rows, Index i) {
            constexpr int R = decltype(tile_rows)::value;
            simd::Tile<T, R, panel_vectors> t;
            t.clear();
            t.multiply(X + (transposed ? i : i * op.keys), transposed ? 1 : op.keys, transposed ? op.keys : 1, Y + at,
                       op.wide_k, count);
            for (int row = 0; row < R; ++row)
                for (int v = 0; v < panel_vectors; ++v)
                    simd::store(op.product.data() + (i + row) * op.wide_k + at + v * L, t.acc[row][v]);
        });
    }
}

// dG of n tokens += what reaches over their gates: the sums of the rows of `terms` [n] from each token on.
template <class T>
void add_suffix_sums(ChunkOperands<T>& op, const T* terms, Index n, T* dG) {
    std::fill_n(op.sum.data(), op.wide_k, T(0));
    for (Index t = n - 1; t >= 0; --t) {
        add_rows(op.sum.data(), terms + t * op.wide_k, op.wide_k);
        add_rows(dG + t * op.wide_k, op.sum.data(), op.wide_k);
    }
}

// The same with the sums of the rows before each token.
template <class T>
void add_prefix_sums(ChunkOperands<T>& op, const T* terms, Index n, T* dG) {
    std::fill_n(op.sum.data(), op.wide_k, T(0));
    for (Index t = 0; t + 1 < n; ++t) {
        add_rows(op.sum.data(), terms + t * op.wide_k, op.wide_k);
        add_rows(dG + (t + 1) * op.wide_k, op.sum.data(), op.wide_k);
    }
}

// Scores of rows X with the keys below the diagonal, whose gradients are G: adds those of X to dX, of the keys to
// dK, of the gates to dG.
template <class T>
void split_gradients(ChunkOperands<T>& op, const T* X, const T* G, T* dX) {
    gated::each_pair_of_blocks(op.n, 1, [&](Index first, Index m, Index end) {
        interrupt::check();
        const Index second = first + m, count = end - second, upper = first * op.wide_k, lower = second * op.wide_k;
        T *f = op.F.data(), *f_lower = f + m * op.wide_k, *k = op.Kf.data(), *q = op.Qf.data();
        gated::split_factors(op.a.data() + upper, m, end - first, op.wide_k, f);
        multiply_row(k, op.K_padded.data() + upper, f, m * op.wide_k);
        multiply_row(q, X + lower, f_lower, count * op.wide_k);
        const T* block = G + second * op.keys + first;
        // Rows of product are gradients of the scaled rows: times those rows they are terms of dg.
        block_product(op, block, false, count, k, m);
        add_products(dX + lower, op.product.data(), f_lower, count * op.wide_k);
        multiply_row(op.terms_of_block.data(), q, op.product.data(), count * op.wide_k);
        add_suffix_sums(op, op.terms_of_block.data(), count, op.dG.data() + lower);
        block_product(op, block, true, m, q, count);
        add_products(op.dK.data() + upper, op.product.data(), f, m * op.wide_k);
        multiply_row(op.terms_of_block.data(), k, op.product.data(), m * op.wide_k);
        add_prefix_sums(op, op.terms_of_block.data(), m, op.dG.data() + upper);
    });
}

// dq, dk and the part of dg that does not pass through the whole chunk.
template <class T>
void channel_gradients(ChunkOperands<T>& op) {
    constexpr Index L = simd::lanes<T>;
    const Index size = op.n * op.wide_k;
    std::fill_n(op.dG.data(), size, T(0));
    T* terms = op.terms.data();
    // Through the states: dKw = U Eᵀ, dKe = -dX S_0ᵀ.
    wide_product(op, op.values(), op.value_stride(), op.Et.data());
    multiply_row(op.dK.data(), op.product.data(), op.w.data(), size);
    multiply_row(terms, op.product.data(), op.Kw.data(), size);
    add_prefix_sums(op, terms, op.n, op.dG.data());
    std::fill_n(terms, size, T(0));
    if (op.delta) {
        wide_product(op, op.grad.dv + op.start * op.head.dv, op.head.dv, op.St.data());
        add_products(op.dK.data(), op.product.data(), op.e.data(), size, T(-1));
        add_products(terms, op.product.data(), op.Ke.data(), size, T(-1));
    }
    for (Index q = 0; q < op.head.group; ++q) {
        const T* Q = op.Q.data() + q * op.c * op.wide_k;
        const T* dA = op.dA.data() + q * op.c * op.keys;
        wide_product(op, op.output_gradient(q), op.head.dv, op.St.data());
        multiply_row(op.dQ.data(), op.product.data(), op.e.data(), size);
        add_products(terms, op.product.data(), op.Qe.data() + q * op.c * op.wide_k, size);
        for (Index t = 0; t < op.n; ++t) {  // the diagonal
            const simd::Vector<T> x = simd::Vector<T>{} + dA[t * op.keys + t];
            for (Index e = t * op.wide_k; e < (t + 1) * op.wide_k; e += L) {
                simd::store(op.dQ.data() + e, simd::load(op.dQ.data() + e) + x * simd::load(op.K_padded.data() + e));
                simd::store(op.dK.data() + e, simd::load(op.dK.data() + e) + x * simd::load(Q + e));
            }
        }
        split_gradients(op, Q, dA, op.dQ.data());
        for (Index t = 0; t < op.n; ++t)
            multiply_row(op.grad.dq + (q * op.head.step + op.start + t) * op.head.dk, op.dQ.data() + t * op.wide_k,
                         op.head.scale, op.head.dk);
    }
    add_suffix_sums(op, terms, op.n, op.dG.data());
    if (op.delta) split_gradients(op, op.K_padded.data(), op.dM.data(), op.dK.data());
    for (Index t = 0; t < op.n; ++t)
        std::copy_n(op.dK.data() + t * op.wide_k, op.head.dk, op.grad.dk + (op.start + t) * op.head.dk);
}

// dg of every token += e_last ⊙ S_0 ⊙ E, channel by channel.
template <class T>
void through_channels(ChunkOperands<T>& op) {
    constexpr Index L = simd::lanes<T>, W = panel_width<T>;
    for (Index e = 0; e < op.head.dk; ++e) {
        simd::Vector<T> sum = {};
        for (Index at = 0; at < op.head.dv; at += W)
            for (Index v = 0; v < std::min(W, op.head.dv - at); v += L)
                sum += simd::load(op.S0 + at * op.head.dk + e * W + v) *
                       simd::load(op.E.data() + at * op.head.dk + e * W + v);
        const T through = op.e[(op.n - 1) * op.wide_k + e] * simd::sum<T>(sum);
        for (Index t = 0; t < op.n; ++t)
            op.grad.dg[(op.start + t) * op.head.dk + e] = op.dG[t * op.wide_k + e] + through;
    }
}

}  // namespace causeway::gradient
