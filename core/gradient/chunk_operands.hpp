// The operands of one chunk of the backward pass: the copies of rows and panels that its products read, and where their
// results go. The letters are those of chunkwise.hpp.
#pragma once

#include "core/gated/gates.hpp"
#include "core/gradient/problem.hpp"
#include "core/kit/panels.hpp"
#include "core/kit/rows.hpp"

namespace causeway::gradient {

// With a gate per key channel rows of channels are padded to whole panels, with gates of 1 and keys and queries of 0.
template <class T>
struct ChunkOperands {
    using Vec = simd::Vector<T>;
    static constexpr Index L = simd::lanes<T>;
    static constexpr Index W = panel_width<T>;
    static constexpr int lines_per_tile = 12;

    static Index whole(Index n) { return panels<T>(n) * W; }

    // For chunks of up to c tokens. with_states: those before the chunks are given to load() in any case.
    ChunkOperands(const GradHead<T>& given, Index longest, bool with_states = false)
        : grad(given),
          head(given.in),
          c(longest),
          keys(whole(c)),
          wide_k(whole(head.dk)),
          wide_v(whole(head.dv)),
          delta(head.beta != nullptr),
          per_head(head.gates == 1),
          per_channel(head.gates > 1),
          plain(!delta && head.gates == 0 && !with_states) {
        for (auto* buffer : {&Kp, &Qp, &Dp, &Xp, &E}) std::fill_n(buffer->data(), buffer->size(), T(0));
        pack_rows(grad.dS, head.dk, head.dv, head.dv, E.data(), head.dk);
        if (!plain) return;
        Buffer<T> S(head.dk * wide_v);
        std::fill_n(S.data(), S.size(), T(0));
        pack_rows(head.S, head.dk, head.dv, head.dv, S.data(), head.dk);
        transpose_panels(S.data(), head.dk, head.dv, St.data(), wide_v);
    }

    // Tokens [first, first + count), of which `before` is the state before, in panels [panel][dk][W]; null: not needed.
    void load(Index first, Index count, const T* before) {
        start = first;
        n = count;
        S0 = before;
        K = head.k + start * head.dk;
    }

    const T* output_gradient(Index q) const { return grad.dO + (q * head.step + start) * head.dv; }
    const T* queries(Index q) const {
        return Q.size() > 0 ? Q.data() + q * c * wide_k : head.q + (q * head.step + start) * head.dk;
    }
    const T* values() const { return delta ? U.data() : head.v + start * head.dv; }
    Index value_stride() const { return delta ? wide_v : head.dv; }
    Index key_stride() const { return per_channel ? wide_k : head.dk; }

    // f(rows, vectors, first row, first column) over the tiles of n rows and `columns` columns, a panel at a time.
    template <bool reversed = false, class F>
    void each_tile(Index count, Index columns, F&& f) {
        for (Index at = 0; at < columns; at += W) {
            const auto row_tile = [&](auto rows, Index i) {
                interrupt::check();
                vectors_of_panel(columns - at, L, [&](auto vectors) { f(rows, vectors, i, at); });
                ahead.lines(lines_per_tile);
            };
            if constexpr (reversed) each_row_tile_reversed(count, row_tile);
            else each_row_tile(count, row_tile);
        }
    }

    // In order, the chunk after this one comes next: what a sweep that makes dq reads and writes.
    void prefetch_next() {
        ahead.clear();
        const Index next = start + n;
        const auto bytes = [&](Index width) {
            return static_cast<std::size_t>(std::min(c, head.N - next) * width) * sizeof(T);
        };
        if (next >= head.N) return;
        ahead.add(grad.dq + next * head.dk, bytes(head.dk));
        ahead.add(grad.dO + next * head.dv, bytes(head.dv));
        ahead.add(head.v + next * head.dv, bytes(head.dv));
        ahead.add(head.k + next * head.dk, bytes(head.dk));
    }

    // In reverse, the chunk before this one comes next.
    void prefetch_previous() {
        ahead.clear();
        if (start == 0) return;
        const Index next = start - c;
        const auto bytes = [&](Index width) { return static_cast<std::size_t>(c * width) * sizeof(T); };
        if (S0 && wide_v == head.dv)
            ahead.add(S0 - head.dk * wide_v, static_cast<std::size_t>(head.dk * wide_v) * sizeof(T));
        ahead.add(grad.dk + next * head.dk, bytes(head.dk));
        ahead.add(grad.dv + next * head.dv, bytes(head.dv));
        ahead.add(grad.dO + next * head.dv, bytes(head.dv));
        ahead.add(head.q + next * head.dk, bytes(head.dk));
        ahead.add(head.k + next * head.dk, bytes(head.dk));
    }

    // a = e^g.
    void exponentiate_gates() {
        if (per_channel) {
            pad_rows(head.g + start * head.dk, n, head.dk, g.data(), wide_k, T(0), T(1));
            gated::exponentials(g.data(), n * wide_k, a.data());
        } else if (per_head) {
            gated::exponentials(head.g + start, n, a.data());
        }
    }

    // Products of gates, and the copies of rows that products read; with_values false: those that scores() reads.
    void make_rows(bool with_values = true) {
        const Index dk = head.dk;
        if (per_channel) {
            gated::channel_gates(a.data(), n, wide_k, e.data(), w.data());
            pad_rows(K, n, dk, K_padded.data(), wide_k, T(0), T(1));
            multiply_row(Kw.data(), K_padded.data(), w.data(), n * wide_k);
        } else if (per_head) {
            gated::scalar_gates(a.data(), n, e.data(), lambda.data(), keys);
            std::copy_n(lambda.data() + (n - 1) * keys, n, w.data());
            std::fill_n(Z.data(), n * keys, T(0));
        }
        for (Index q = 0; q < head.group; ++q) make_query_rows(q);
        if (!per_channel) {
            pack_transposed(K, n, dk, Kt.data());
            pack_rows(K, n, dk, dk, Kp.data(), c);
        }
        if (!with_values) return;
        if (delta) make_delta_rows();
        pack_values();
    }

    // Q = scale · q, and e ⊙ Q.
    void make_query_rows(Index q) {
        const Index dk = head.dk;
        const T* from = head.q + (q * head.step + start) * dk;
        T* scaled = Q.data() + q * c * wide_k;
        if (per_channel) pad_rows(from, n, dk, scaled, wide_k, T(0), head.scale);
        else if (Q.size() > 0) multiply_row(scaled, from, head.scale, n * dk);
        T* decayed = Qe.data() + q * c * wide_k;
        if (per_channel) multiply_row(decayed, queries(q), e.data(), n * wide_k);
        else if (per_head)
            for (Index t = 0; t < n; ++t) multiply_row(decayed + t * dk, queries(q) + t * dk, e[t], dk);
        if (!per_channel) pack_rows(queries(q), n, dk, dk, Qp.data() + q * c * wide_k, c);
        pack_rows(output_gradient(q), n, head.dv, head.dv, Dp.data() + q * c * wide_v, c);
    }

    // Y = v - S'ᵀ k, U = diag(β) Y, e ⊙ K, and w ⊙ U.
    void make_delta_rows() {
        const Index dk = head.dk;
        pad_rows(grad.dv + start * head.dv, n, head.dv, Y.data(), wide_v, T(0), T(1));
        for (Index t = 0; t < n; ++t)
            multiply_row(U.data() + t * wide_v, Y.data() + t * wide_v, head.beta[start + t], wide_v);
        if (per_channel) multiply_row(Ke.data(), K_padded.data(), e.data(), n * wide_k);
        else
            for (Index t = 0; t < n; ++t) multiply_row(Ke.data() + t * dk, K + t * dk, per_head ? e[t] : T(1), dk);
        std::fill_n(dbeta.data(), n, T(0));
        if (!per_head) return;
        for (Index t = 0; t < n; ++t) multiply_row(Uw.data() + t * wide_v, U.data() + t * wide_v, w[t], wide_v);
    }

    // dS, where the head has it.
    void write_state() { unpack_rows(E.data(), head.dk, head.dv, grad.dS, head.dv); }

    // The state after the tokens of a forward sweep without gates and delta rule.
    void write_forward_state(T* S) const {
        for (Index row = 0; row < head.dk; ++row)
            for (Index j = 0; j < head.dv; ++j) S[row * head.dv + j] = St[row / W * W * wide_v + j * W + row % W];
    }

    // Uᵀ in panels of tokens.
    void pack_values() {
        if (!delta) return pack_transposed(values(), n, head.dv, Ut.data());
        for (Index j = 0; j < n; j += L) {
            T* panel = Ut.data() + j / W * W * head.dv + j % W;
            for (Index at = 0; at < head.dv; at += L) {
                Vec rows[L];
                for (Index k = 0; k < L; ++k)
                    rows[k] = j + k < n ? simd::load(U.data() + (j + k) * wide_v + at) : Vec{};
                simd::transpose<T>(rows);
                for (Index k = 0; k < std::min(L, head.dv - at); ++k) simd::store(panel + (at + k) * W, rows[k]);
            }
        }
    }

    // A = Λ ⊙ Q Kᵀ and M = Λ ⊙ K Kᵀ up to the diagonal.
    void scores() {
        if (per_channel) {
            gated::channel_scores(
                K_padded.data(), group, [&](Index q) { return queries(q); }, a.data(), n, wide_k, A.data(), square,
                delta ? M.data() : nullptr, keys, F.data(), Kf.data(), Qf.data());
            return;
        }
        for (Index q = 0; q < head.group; ++q) masked_scores(queries(q), A.data() + q * c * keys);
        if (delta) masked_scores(K, M.data());
    }

    void masked_scores(const T* X, T* into) {
        each_score_tile([&](auto rows, auto vectors, Index i, Index key) {
            constexpr int R = decltype(rows)::value, NV = decltype(vectors)::value;
            simd::Tile<T, R, NV> t;
            t.clear();
            t.multiply(X + i * head.dk, head.dk, 1, Kt.data() + key * head.dk, W, head.dk);
            for (int row = 0; row < R; ++row) {
                const Index entry = (i + row) * keys + key;
                for (int v = 0; v < NV; ++v)
                    simd::store(into + entry + v * L,
                                per_head
                                    ? gated::gated_product<T>(t.acc[row][v], simd::load(lambda.data() + entry + v * L))
                                    : t.acc[row][v]);
            }
        });
    }

    template <class F>
    void each_score_tile(F&& f) {
        each_row_tile(n, [&](auto rows, Index i) {
            interrupt::check();
            for (Index key = 0; key < i + decltype(rows)::value; key += W) {
                vectors_of_panel(i + decltype(rows)::value - key, L, [&](auto vectors) { f(rows, vectors, i, key); });
                ahead.lines(lines_per_tile);
            }
        });
    }

    const GradHead<T>& grad;
    const gated::Head<T>& head;
    Index c, keys, wide_k, wide_v;      // longest chunk; the same, dk and dv in whole panels
    bool delta, per_head, per_channel;  // per_head: one gate a head
    bool plain;                         // neither gates nor delta rule, and no states: forward() has made dq
    Index group = head.group, rows_k = c * wide_k, rows_v = c * wide_v, square = c * keys;
    Buffer<T> A{group * square}, dA{group * square}, M{delta ? square : 0},
        dM{delta ? square : 0};  // [group, c, keys], [c, keys]; with one gate a head dA and dM are times Λ
    Buffer<T> Z{per_head ? square : 0}, lambda{per_head ? square : 0};
    Buffer<T> a{per_channel ? rows_k : c}, e{per_channel ? rows_k : c}, w{per_channel ? rows_k : c};
    // Panels: Kᵀ, Uᵀ; K, Q, dO, dX; E = dS_1, and the transposes of it and of S_0.
    Buffer<T> Kt{per_channel ? 0 : head.dk * keys}, Ut{head.dv * keys};
    Buffer<T> Kp{rows_k}, Qp{group * rows_k}, Dp{group * rows_v}, Xp{delta ? rows_v : 0};
    Buffer<T> E{head.dk * wide_v}, Et{wide_k * wide_v}, St{wide_k * wide_v};
    // Rows: scale · q, e ⊙ Q, e ⊙ K, w ⊙ K, w ⊙ U, the residuals y, U.
    Buffer<T> Q{per_channel || head.scale != T(1) ? group * rows_k : 0}, Qe{head.gates > 0 ? group*rows_k : 0};
    Buffer<T> Ke{delta ? rows_k : 0}, Kw{per_channel ? rows_k : 0}, Uw{per_head && delta ? rows_v : 0},
        Y{delta ? rows_v : 0}, U{delta ? rows_v : 0};
    Buffer<T> older{c}, later{c}, dbeta{c};  // dQe_t · Qe_t + dKe_t · Ke_t, and dKw_j · Kw_j
    // With a gate per channel: factors, keys and queries times them, products, gradients, padded inputs.
    Index split = per_channel ? rows_k : 0;
    Buffer<T> F{split}, Kf{split}, Qf{split}, product{split}, dK{split}, dQ{split}, K_padded{split}, g{split},
        dG{split}, terms{split}, terms_of_block{split};
    Buffer<T> sum{per_channel ? wide_k : 0};
    Prefetch ahead;
    Index start = 0, n = 0;
    const T* S0 = nullptr;
    const T* K = nullptr;
};

}  // namespace causeway::gradient
