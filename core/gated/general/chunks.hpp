// The chunkwise form of the general rule over register tiles (core/kit/panels.hpp), as core/gated/chunks.hpp has it for
// the delta rules. Per chunk and head: scores of queries and of w with the two keys of every token, each up to the
// diagonal; then for every panel of columns of the values Y by forward substitution, the outputs and the state.
//
// w_t reads the state before the token, so it is decayed as a query of token t - 1 is: it stands in the row of that
// token, and its scores up to the diagonal are what is needed. Nothing is divided. Entries of later tokens never meet
// earlier rows, not even times zero: Inf and NaN stay causal.
#pragma once

#include <algorithm>

#include "core/base/interrupt.hpp"
#include "core/gated/gates.hpp"
#include "core/gated/general/problem.hpp"

namespace causeway::gated {

// The columns [from, to) of the values of one head, in chunks of up to c tokens.
template <class T>
class GeneralChunks {
    using Vec = simd::Vector<T>;
    static constexpr Index L = simd::lanes<T>;
    static constexpr Index W = panel_width<T>;

public:
    // `from` is a multiple of W.
    GeneralChunks(const GeneralHead<T>& h, Index c, Index from, Index to)
        : h_(h),
          c_(c),
          from_(from),
          columns_(to - from),
          keys_(panels<T>(c) * W),
          square_((c + 1) * keys_),
          channels_(h.gates > 1),
          kinds_(h.u ? 2 : 1),
          readers_(h.group + (h.u ? 1 : 0)),
          transposed_(channels_ ? 0 : h.dk * keys_),
          scores_(kinds_ * readers_ * square_),
          values_(kinds_ * c * panels<T>(columns_) * W),
          S_(h.dk * panels<T>(columns_) * W),
          taken_(h.u ? c * h.dk : 0),
          before_(h.u ? c * h.dk : 0),
          e_(h.gates * c),
          lambda_(h.gates == 1 ? c * keys_ : 0),
          last_(channels_ ? c * h.dk : 0),
          weighted_(h.gates > 0 ? kinds_ * c * h.dk : 0),
          scaled_(h.gates > 0 ? c * h.dk : 0),
          factors_(channels_ ? c * h.dk : 0),
          keys_scaled_(channels_ ? c * h.dk : 0) {
        std::fill_n(values_.data(), values_.size(), T(0));
        std::fill_n(S_.data(), S_.size(), T(0));
        pack_rows(h.S + from, h.dk, columns_, h.dv, S_.data(), h.dk);
    }

    void advance(Index start, Index n) {
        start_ = start, n_ = n;
        key_[0] = h_.k + start * h_.dk;
        const FlushUnderflow flush(h_.gates > 0);
        if (h_.u) take_u_and_w();
        if (h_.gates > 0) gates();
        for (Index kind = 0; kind < kinds_; ++kind) score(kind);
        pack_rows(h_.v + start * h_.dv + from_, n, columns_, h_.dv, values_.data(), c_);
        if (h_.u) {
            const T* X = times_e(h_.w + start * h_.dk, true);
            each_tile(n_, [&](auto rows, auto vectors, Index i, Index at) {
                solve_tile<decltype(rows)::value, decltype(vectors)::value>(X, i, at);
            });
        }
        for (Index q = 0; q < h_.group; ++q) {
            const T* X = times_e(query(q), false);
            each_tile(n_, [&](auto rows, auto vectors, Index i, Index at) {
                output_tile<decltype(rows)::value, decltype(vectors)::value>(X, q, i, at);
            });
        }
        each_tile(h_.dk, [&](auto rows, auto vectors, Index i, Index at) {
            state_tile<decltype(rows)::value, decltype(vectors)::value>(i, at);
        });
    }

    // Writes S [dk, dv] to `into`: its columns from `from` to `to`.
    void write_state(T* into) const {
        for (Index at = 0; at < columns_; at += W)
            for (Index e = 0; e < h_.dk; ++e)
                std::copy_n(S_.data() + at * h_.dk + e * W, std::min(W, columns_ - at), into + e * h_.dv + from_ + at);
    }

private:
    const T* query(Index i) const { return h_.q + (i * h_.step + start_) * h_.dk; }
    // Scores of reader i, the last of which is w, with keys of a kind, a row for each row of the reader. They begin in
    // the second row of their square, so that the scores of w_t, which stands in row t - 1, have a place for t = 0 too.
    T* scores(Index kind, Index i) { return scores_.data() + (kind * readers_ + i) * square_ + keys_; }
    const T* query_scores(Index kind, Index i, Index t) const {
        return scores_.data() + (kind * readers_ + i) * square_ + (t + 1) * keys_;
    }
    const T* w_scores(Index kind, Index t) const {
        return scores_.data() + (kind * readers_ + h_.group) * square_ + t * keys_;
    }
    const T* values(Index kind, Index at) const {
        return values_.data() + kind * c_ * panels<T>(columns_) * W + at * c_;
    }
    T* values(Index kind, Index at) { return values_.data() + kind * c_ * panels<T>(columns_) * W + at * c_; }

    // f(rows, vectors, first row, first column) over the tiles of n rows and all columns, a panel at a time.
    template <class F>
    void each_tile(Index n, F&& f) {
        for (Index at = 0; at < columns_; at += W) {
            each_row_tile(n, [&](auto rows, Index i) {
                interrupt::check();
                vectors_of_tile<decltype(rows)::value>(columns_ - at, [&](auto vectors) { f(rows, vectors, i, at); });
            });
        }
    }

    // The vectors of a tile of R rows over the columns left of a panel. Few rows take the whole panel: where the flag
    // that CMakeLists.txt gives for it is not known, a compiler may turn the sums of a single accumulator into products
    // that are added one by one, whose bits are not those of the other tiles, and then those of a token would depend on
    // how many come after it.
    template <int R, class F>
    static void vectors_of_tile(Index columns, F&& f) {
        if constexpr (R < tile_rows) f(std::integral_constant<int, panel_vectors>{});
        else vectors_of_panel(columns, L, f);
    }

    // -u, the second keys, and w of the next token in the row of each.
    void take_u_and_w() {
        multiply_row(taken_.data(), h_.u + start_ * h_.dk, T(-1), n_ * h_.dk);
        key_[1] = taken_.data();
        std::copy_n(h_.w + (start_ + 1) * h_.dk, (n_ - 1) * h_.dk, before_.data());
        std::fill_n(before_.data() + (n_ - 1) * h_.dk, h_.dk, T(0));
    }

    // The products of a, and both keys times what is left of them after the chunk.
    void gates() {
        const T* a = h_.a + start_ * h_.gates;
        if (channels_) channel_gates(a, n_, h_.dk, e_.data(), last_.data());
        else scalar_gates(a, n_, e_.data(), lambda_.data(), keys_);
        for (Index kind = 0; kind < kinds_; ++kind) {
            T* into = weighted_.data() + kind * c_ * h_.dk;
            if (channels_) multiply_row(into, key_[kind], last_.data(), n_ * h_.dk);
            for (Index j = 0; !channels_ && j < n_; ++j)
                multiply_row(into + j * h_.dk, key_[kind] + j * h_.dk, lambda_[(n_ - 1) * keys_ + j], h_.dk);
        }
    }

    // Rows of X [n, dk] times the product of a up to their token, or `before` it.
    const T* times_e(const T* X, bool before) {
        if (h_.gates == 0) return X;
        const Index first = before ? 1 : 0;
        std::copy_n(X, first * h_.dk, scaled_.data());
        if (channels_) {
            multiply_row(scaled_.data() + first * h_.dk, X + first * h_.dk, e_.data(), (n_ - first) * h_.dk);
        } else {
            for (Index t = first; t < n_; ++t)
                multiply_row(scaled_.data() + t * h_.dk, X + t * h_.dk, e_[t - first], h_.dk);
        }
        return scaled_.data();
    }

    // Scores of all readers with the keys of a kind.
    void score(Index kind) {
        const auto reader = [&](Index i) { return i == h_.group ? before_.data() : query(i); };
        if (channels_) {
            channel_scores<T>(key_[kind], readers_, reader, h_.a + start_ * h_.gates, n_, h_.dk, scores(kind, 0),
                              square_, nullptr, keys_, factors_.data(), keys_scaled_.data(), scaled_.data());
        } else {
            pack_transposed(key_[kind], n_, h_.dk, transposed_.data());
            for (Index i = 0; i < readers_; ++i) score_with_one_gate(reader(i), scores(kind, i));
        }
    }

    // Λ ⊙ X Kᵀ up to the diagonal; what lies to the right of it in the last vector is never read.
    void score_with_one_gate(const T* X, T* into) {
        each_row_tile(n_, [&](auto tile_rows, Index i) {
            constexpr int R = decltype(tile_rows)::value;
            interrupt::check();
            for (Index key = 0; key < i + R; key += W) {
                vectors_of_tile<R>(i + R - key, [&](auto vectors) {
                    constexpr int NV = decltype(vectors)::value;
                    simd::Tile<T, R, NV> t;
                    t.clear();
                    t.multiply(X + i * h_.dk, h_.dk, 1, transposed_.data() + key * h_.dk, W, h_.dk);
                    for (int row = 0; row < R; ++row) {
                        const Index entry = (i + row) * keys_ + key;
                        for (int v = 0; v < NV; ++v) {
                            if (h_.gates == 1)
                                t.acc[row][v] =
                                    gated_product<T>(t.acc[row][v], simd::load(lambda_.data() + entry + v * L));
                            simd::store(into + entry + v * L, t.acc[row][v]);
                        }
                    }
                });
            }
        });
    }

    // y_t = w_tᵀ D S_0 + Σ_{j<t} M_tj v_j + Σ_{j<t} M'_tj y_j, in this order whatever tile the row is in.
    template <int R, int NV>
    void solve_tile(const T* X, Index i, Index at) {
        simd::Tile<T, R, NV> t;
        const T *V = values(0, at), *M = w_scores(0, i), *taken = w_scores(1, i);
        T* Y = values(1, at);
        state_product(t, X, i, at);
        t.multiply(M, keys_, 1, V, W, i);
        add_below_diagonal(t, M + i, V + i * W);
        t.multiply(taken, keys_, 1, Y, W, i);
#pragma GCC unroll 16
        for (int k = 0; k < R; ++k) {
            for (int x = 0; x < NV; ++x) simd::store(Y + (i + k) * W + x * L, t.acc[k][x]);
#pragma GCC unroll 16
            for (int row = k + 1; row < R; ++row)
                for (int x = 0; x < NV; ++x) t.acc[row][x] += taken[row * keys_ + i + k] * t.acc[k][x];
        }
    }

    // t += X Y over the triangle below the diagonal, as add_triangle has it with the diagonal.
    template <int R, int NV>
    void add_below_diagonal(simd::Tile<T, R, NV>& t, const T* X, const T* Y) {
#pragma GCC unroll 16
        for (int k = 0; k < R; ++k) {
            Vec y[NV];
            for (int x = 0; x < NV; ++x) y[x] = simd::load(Y + k * W + x * L);
#pragma GCC unroll 16
            for (int row = k + 1; row < R; ++row)
                for (int x = 0; x < NV; ++x) t.acc[row][x] += X[row * keys_ + k] * y[x];
        }
    }

    template <int R, int NV>
    void output_tile(const T* X, Index q, Index i, Index at) {
        simd::Tile<T, R, NV> t;
        state_product(t, X, i, at);
        for (Index kind = 0; kind < kinds_; ++kind) {
            const T *A = query_scores(kind, q, i), *values_of_kind = values(kind, at);
            t.multiply(A, keys_, 1, values_of_kind, W, i);
            add_triangle(t, A + i, keys_, values_of_kind + i * W);
        }
        T* O = h_.O + (q * h_.step + start_) * h_.dv + from_ + at;
        for (int row = 0; row < R; ++row) {
            if (h_.scale != T(1))
                for (int v = 0; v < NV; ++v) t.acc[row][v] *= h_.scale;
            store_row<T, NV>(O + (i + row) * h_.dv, t.acc[row], columns_ - at);
        }
    }

    // t = X S_0 for rows i ... of X.
    template <int R, int NV>
    void state_product(simd::Tile<T, R, NV>& t, const T* X, Index i, Index at) {
        t.clear();
        t.multiply(X + i * h_.dk, h_.dk, 1, S_.data() + at * h_.dk, W, h_.dk);
    }

    // Rows e ... of S.
    template <int R, int NV>
    void state_tile(Index e, Index at) {
        simd::Tile<T, R, NV> t;
        t.clear();
        for (Index kind = 0; kind < kinds_; ++kind) {
            const T* keys = h_.gates > 0 ? weighted_.data() + kind * c_ * h_.dk : key_[kind];
            t.multiply(keys + e, 1, h_.dk, values(kind, at), W, n_);
        }
        T* S = S_.data() + at * h_.dk + e * W;
        for (int row = 0; row < R; ++row) {
            const T carry = h_.gates == 0 ? T(1) : e_[channels_ ? (n_ - 1) * h_.dk + e + row : n_ - 1];
            for (int v = 0; v < NV; ++v)
                simd::store(S + row * W + v * L, carry * simd::load(S + row * W + v * L) + t.acc[row][v]);
        }
    }

    const GeneralHead<T>& h_;
    Index c_, from_, columns_, keys_,
        square_;  // longest chunk; columns of the values; c in whole panels; one score set
    bool channels_;
    Index kinds_, readers_;                     // of keys: k, and -u; of the state: the queries, and w
    Buffer<T> transposed_, scores_;             // panels [dk, keys]; [kinds, readers, c + 1, keys]
    Buffer<T> values_, S_;                      // panels of [kinds, c, columns] and [dk, columns]
    Buffer<T> taken_, before_;                  // [c, dk]
    Buffer<T> e_, lambda_, last_;               // [c] or [c, dk]; [c, keys]; [c, dk]
    Buffer<T> weighted_;                        // [kinds, c, dk]
    Buffer<T> scaled_, factors_, keys_scaled_;  // [c, dk]
    const T* key_[2] = {nullptr, nullptr};
    Index start_ = 0, n_ = 0;
};

// Compiled once, in core/gated/general/chunkwise.cpp.
extern template class GeneralChunks<float>;
extern template class GeneralChunks<double>;

}  // namespace causeway::gated
