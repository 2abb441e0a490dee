// The chunkwise form as one fused pass over register tiles (core/kit/panels.hpp); used by the forward and backward
// pass.
//
// A chunk is at home in the second-level cache. Per chunk and head: scores of keys with keys and of queries with keys,
// each up to the diagonal; then for every panel of columns of the values
//   U     e ⊙ K S_0 and the products with the rows of U before it in one tile, forward substitution within the tile
//   O     e ⊙ Q S_0 + A U in one tile
//   S     e_last ⊙ S_0 + (w ⊙ K)ᵀ U
// Columns of the values never meet, so with fewer heads than threads those of a head are spread over tasks, each with
// scores of its own; without the delta rule nothing but S hangs on the chunks before, so that all threads take chunks
// of a head (kit/chained_scan.hpp). The arithmetic of a column is the same every way. Entries of later tokens never
// meet earlier rows, not even times zero: Inf and NaN stay causal.
#pragma once

#include <algorithm>

#include "core/base/interrupt.hpp"
#include "core/gated/gates.hpp"
#include "core/gated/problem.hpp"

namespace causeway::gated {

// The columns [from, to) of the values of one head, in chunks of up to c tokens.
template <class T>
class Chunks {
    using Vec = simd::Vector<T>;
    static constexpr Index L = simd::lanes<T>;
    static constexpr Index W = panel_width<T>;

public:
    // `from` is a multiple of the lanes of a vector. `residual`, where given [N, dv], gets v_t - S'ᵀ k_t of the delta
    // rule: u_t before β_t.
    Chunks(const Head<T>& h, Index c, Index from, Index to, T* residual = nullptr)
        : h_(h),
          residual_(residual),
          c_(c),
          from_(from),
          columns_(to - from),
          keys_(panels<T>(c) * W),
          channels_(h.gates > 1),
          transposed_(channels_ ? 0 : h.dk * keys_),
          A_(h.group * c * keys_),
          M_(h.beta ? c * keys_ : 0),
          U_(c * panels<T>(columns_) * W),
          S_(h.dk * panels<T>(columns_) * W),
          a_(h.gates * c),
          e_(h.gates * c),
          lambda_(h.gates == 1 ? c * keys_ : 0),
          weighted_(h.gates > 0 ? c * h.dk : 0),
          w_(channels_ ? c * h.dk : 0),
          scaled_(channels_ ? c * h.dk : 0),
          factors_(channels_ ? c * h.dk : 0),
          keys_scaled_(channels_ ? c * h.dk : 0) {
        std::fill_n(U_.data(), U_.size(), T(0));
        std::fill_n(S_.data(), S_.size(), T(0));
        pack_rows(h.S + from, h.dk, columns_, h.dv, S_.data(), h.dk);
    }

    // M: Λ ⊙ K Kᵀ up to the diagonal, [n, c in whole panels], where it has been made, with one gate a head or none.
    void advance(Index start, Index n, const T* M = nullptr) {
        load(start, n, M);
        outputs();
        const FlushUnderflow flush(h_.gates > 0);
        each_tile(h_.dk, [&](auto rows, auto vectors, Index i, Index at) {
            state_tile<decltype(rows)::value, decltype(vectors)::value>(
                i, at, [&](T carry, T* S, Vec added) { simd::store(S, carry * simd::load(S) + added); });
        });
    }

    // advance() in four steps, without the delta rule: load(), addition(), add(), outputs(). Another head of the same
    // problem and length may come next.
    void take(const Head<T>& h) { h_ = h; }

    // What a chunk adds to the state, of its size.
    void addition(T* D) {
        const FlushUnderflow flush(h_.gates > 0);
        each_tile(h_.dk, [&](auto rows, auto vectors, Index i, Index at) {
            state_tile<decltype(rows)::value, decltype(vectors)::value>(
                i, at, [&](T, T* S, Vec added) { simd::store(D + (S - S_.data()), added); });
        });
    }

    // S, of which the outputs are made, is the state before the chunk, and that goes on.
    void add(const T* D, T* state) {
        const FlushUnderflow flush(h_.gates > 0);
        for (Index at = 0; at < columns_; at += W)
            for (Index e = 0; e < h_.dk; ++e)
                for (Index v = 0; v < std::min(W, columns_ - at); v += L) {
                    const Index place = at * h_.dk + e * W + v;
                    const Vec before = simd::load(state + place);
                    simd::store(S_.data() + place, before);
                    simd::store(state + place, carry(e) * before + simd::load(D + place));
                }
    }

    // Of tokens [start, start + n) all that hangs on no state, and with the delta rule U.
    void load(Index start, Index n, const T* M = nullptr) {
        n_ = n;
        start_ = start;
        K_ = h_.k + start * h_.dk;
        const T* V = h_.v + start * h_.dv + from_;
        prefetch(start + n);
        exponentials(h_.g + start * h_.gates, n * h_.gates, a_.data());
        const FlushUnderflow flush(h_.gates > 0);
        if (h_.gates > 0) gates();
        if (channels_) {
            gated::channel_scores(
                K_, h_.group, [&](Index i) { return query(i); }, a_.data(), n, h_.dk, A_.data(), c_ * keys_,
                h_.beta ? M_.data() : nullptr, keys_, factors_.data(), keys_scaled_.data(), scaled_.data());
        } else {
            if (h_.group > 0 || !M) pack_transposed(K_, n, h_.dk, transposed_.data());
            if (h_.beta && !M) scores(K_, M_.data());
            for (Index i = 0; i < h_.group; ++i) scores(query(i), A_.data() + i * c_ * keys_);
        }
        if (h_.beta) {
            const T* K = channels_ ? times_e(K_) : K_;
            each_tile(n_, [&](auto rows, auto vectors, Index i, Index at) {
                solve_tile<decltype(rows)::value, decltype(vectors)::value>(K, V, M ? M : M_.data(), i, at);
            });
        } else {
            pack_rows(V, n, columns_, h_.dv, U_.data(), c_);
        }
    }

    void outputs() {
        const FlushUnderflow flush(h_.gates > 0);
        for (Index q = 0; q < h_.group; ++q) {
            const T* Q = channels_ ? times_e(query(q)) : query(q);
            T* O = h_.O + (q * h_.step + start_) * h_.dv + from_;
            each_tile(n_, [&](auto rows, auto vectors, Index i, Index at) {
                output_tile<decltype(rows)::value, decltype(vectors)::value>(Q, A_.data() + q * c_ * keys_, O, i, at);
            });
        }
    }

    // S in panels [panel][dk][W].
    const Buffer<T>& state() const { return S_; }

    // Writes S where the head has it.
    void finish() { unpack_rows(S_.data(), h_.dk, columns_, h_.S + from_, h_.dv); }

private:
    const T* query(Index i) const { return h_.q + (i * h_.step + start_) * h_.dk; }

    void prefetch(Index next) {
        prefetch_.clear();
        if (next >= h_.N) return;
        const auto bytes = [&](Index width) {
            return static_cast<std::size_t>(std::min(c_, h_.N - next) * width) * sizeof(T);
        };
        if (h_.group > 0) {
            prefetch_.add(h_.O + next * h_.dv, bytes(h_.dv));
            prefetch_.add(h_.q + next * h_.dk, bytes(h_.dk));
        }
        prefetch_.add(h_.v + next * h_.dv, bytes(h_.dv));
        prefetch_.add(h_.k + next * h_.dk, bytes(h_.dk));
    }

    // f(rows, vectors, first row, first column) over the tiles of n rows and all columns, a panel at a time.
    template <class F>
    void each_tile(Index n, F&& f) {
        for (Index at = 0; at < columns_; at += W) {
            each_row_tile(n, [&](auto rows, Index i) {
                interrupt::check();
                vectors_of_panel(columns_ - at, L, [&](auto vectors) { f(rows, vectors, i, at); });
                prefetch_.lines(lines_per_tile);
            });
        }
    }

    // Λ or the products per channel, and w ⊙ K.
    void gates() {
        if (channels_) {
            channel_gates(a_.data(), n_, h_.dk, e_.data(), w_.data());
            multiply_row(weighted_.data(), K_, w_.data(), n_ * h_.dk);
        } else {
            scalar_gates(a_.data(), n_, e_.data(), lambda_.data(), keys_);
            for (Index j = 0; j < n_; ++j)
                multiply_row(weighted_.data() + j * h_.dk, K_ + j * h_.dk, lambda_[(n_ - 1) * keys_ + j], h_.dk);
        }
    }

    // Rows of X [n, dk] times e, with a gate per channel.
    const T* times_e(const T* X) {
        multiply_row(scaled_.data(), X, e_.data(), n_ * h_.dk);
        return scaled_.data();
    }

    // Λ ⊙ X Kᵀ up to the diagonal; what lies to the right of it in the last vector is never read.
    void scores(const T* X, T* into) {
        each_row_tile(n_, [&](auto tile_rows, Index i) {
            constexpr int R = decltype(tile_rows)::value;
            interrupt::check();
            for (Index key = 0; key < i + R; key += W) {
                vectors_of_panel(i + R - key, L, [&](auto vectors) {
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
                prefetch_.lines(lines_per_tile);
            }
        });
    }

    // u_t = β_t (v_t - e_t ⊙ k_t S_0 - Σ_{j<t} M_tj u_j)
    template <int R, int NV>
    void solve_tile(const T* K, const T* V, const T* scores, Index i, Index at) {
        simd::Tile<T, R, NV> t;
        state_product(t, K, i, at);
        T* U = U_.data() + at * c_;
        const T* M = scores + i * keys_;
        t.multiply(M, keys_, 1, U, W, i);
        const Index columns = columns_ - at;
#pragma GCC unroll 16
        for (int k = 0; k < R; ++k) {
            const T* v = V + (i + k) * h_.dv + at;
            for (int x = 0; x < NV; ++x) {
                const Vec value =
                    columns >= NV * L ? simd::load(v + x * L) : simd::load_part(v + x * L, columns - x * L);
                t.acc[k][x] = value - t.acc[k][x];
            }
            if (residual_) store_row<T, NV>(residual_ + (start_ + i + k) * h_.dv + from_ + at, t.acc[k], columns);
            for (int x = 0; x < NV; ++x) {
                t.acc[k][x] *= h_.beta[start_ + i + k];
                simd::store(U + (i + k) * W + x * L, t.acc[k][x]);
            }
#pragma GCC unroll 16
            for (int row = k + 1; row < R; ++row)
                for (int x = 0; x < NV; ++x) t.acc[row][x] += M[row * keys_ + i + k] * t.acc[k][x];
        }
    }

    template <int R, int NV>
    void output_tile(const T* Q, const T* scores, T* O, Index i, Index at) {
        simd::Tile<T, R, NV> t;
        state_product(t, Q, i, at);
        const T* A = scores + i * keys_;
        const T* U = U_.data() + at * c_;
        t.multiply(A, keys_, 1, U, W, i);
        add_triangle(t, A + i, keys_, U + i * W);
        for (int row = 0; row < R; ++row) {
            if (h_.scale != T(1))
                for (int v = 0; v < NV; ++v) t.acc[row][v] *= h_.scale;
            store_row<T, NV>(O + (i + row) * h_.dv + at, t.acc[row], columns_ - at);
        }
    }

    // t = e ⊙ X S_0 for rows i ... of X.
    template <int R, int NV>
    void state_product(simd::Tile<T, R, NV>& t, const T* X, Index i, Index at) {
        t.clear();
        t.multiply(X + i * h_.dk, h_.dk, 1, S_.data() + at * h_.dk, W, h_.dk);
        if (h_.gates != 1) return;
        for (int row = 0; row < R; ++row)
            for (int v = 0; v < NV; ++v) t.acc[row][v] *= e_[i + row];
    }

    // Rows e ... of what the chunk adds to S: store(carry, place in S, added).
    template <int R, int NV, class Store>
    void state_tile(Index e, Index at, Store&& store) {
        simd::Tile<T, R, NV> t;
        t.clear();
        t.multiply((h_.gates > 0 ? weighted_.data() : K_) + e, 1, h_.dk, U_.data() + at * c_, W, n_);
        T* S = S_.data() + at * h_.dk + e * W;
        for (int row = 0; row < R; ++row)
            for (int v = 0; v < NV; ++v) store(carry(e + row), S + row * W + v * L, t.acc[row][v]);
    }

    // What is left after the chunk of row e of the state before it.
    T carry(Index e) const { return h_.gates == 0 ? T(1) : h_.gates == 1 ? e_[n_ - 1] : e_[(n_ - 1) * h_.dk + e]; }

    static constexpr int lines_per_tile = 16;

    Head<T> h_;
    T* residual_;
    Index c_, from_, columns_, keys_;  // longest chunk; columns of the values; c in whole panels
    bool channels_;
    Buffer<T> transposed_, A_, M_;                             // panels [dk, keys], [group, c, keys], [c, keys]
    Buffer<T> U_, S_;                                          // panels of [c, columns], [dk, columns]
    Buffer<T> a_, e_, lambda_;                                 // [c] or [c, dk], [c, keys]
    Buffer<T> weighted_, w_, scaled_, factors_, keys_scaled_;  // [c, dk]
    Prefetch prefetch_;
    Index start_ = 0, n_ = 0;
    const T* K_ = nullptr;
};

// Compiled once, in core/gated/chunkwise.cpp.
extern template class Chunks<float>;
extern template class Chunks<double>;

}  // namespace causeway::gated
