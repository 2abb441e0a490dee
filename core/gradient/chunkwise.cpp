// The chunkwise backward pass in register tiles (core/kit/panels.hpp); chunkwise.hpp is its definition, letter by
// letter.
//
// A forward sweep stores the state before every chunk and, with the delta rule, the residuals y_t = v_t - S'ᵀ k_t where
// dv will stand; without gates and delta rule it makes dq instead, the only gradient that needs those states, and
// stores nothing: dA is then computed twice, which costs less than states that come from memory. Then chunks in
// reverse, each at home in the second-level cache. Products that end in the same tile of dq, dk, dv or dS share its
// registers; dg is made of dot products on rows of those tiles, and of sums over Z = dA ⊙ A + dM ⊙ M. With a gate per
// key channel, Λ stands inside the inner products, which are split into pairs of blocks as in the forward pass
// (gates.hpp); rows of channels are then padded to whole panels with gates of 1 and keys and queries of 0.
#include "core/gradient/chunkwise.hpp"

#include "core/base/parallel.hpp"
#include "core/gated/chunks.hpp"
#include "core/gradient/forms.hpp"

namespace causeway::gradient {
namespace {

// f(rows, first) over n rows from the last to the first.
template <class F>
inline void each_row_tile_reversed(Index n, F&& f) {
    Index end = n;
    for (; end >= tile_rows; end -= tile_rows) f(std::integral_constant<int, tile_rows>{}, end - tile_rows);
    if (end >= 4) f(std::integral_constant<int, 4>{}, end - 4), end -= 4;
    if (end >= 2) f(std::integral_constant<int, 2>{}, end - 2), end -= 2;
    if (end >= 1) f(std::integral_constant<int, 1>{}, end - 1);
}

// Panels [panel][rows][W] of a matrix of `columns` columns, transposed: panels [panel of rows][stride][W], where row j
// of a panel is column j of the matrix; stride >= columns in whole vectors.
template <class T>
void transpose_panels(const T* from, Index rows, Index columns, T* into, Index stride) {
    constexpr Index W = panel_width<T>, L = simd::lanes<T>;
    for (Index at = 0; at < columns; at += L) {
        const T* panel = from + at / W * W * rows + at % W;
        for (Index e = 0; e < rows; e += L) {
            simd::Vector<T> square[L];
            for (Index k = 0; k < L; ++k)
                square[k] = e + k < rows ? simd::load(panel + (e + k) * W) : simd::Vector<T>{};
            simd::transpose<T>(square);
            T* out = into + e / W * W * stride + e % W;
            for (Index k = 0; k < L; ++k) simd::store(out + (at + k) * W, square[k]);
        }
    }
}

// n rows of `width` numbers into rows of `padded`, with `fill` behind them and times `scale`.
template <class T>
void pad_rows(const T* from, Index n, Index width, T* into, Index padded, T fill, T scale) {
    for (Index t = 0; t < n; ++t) {
        gated::multiply_row(into + t * padded, from + t * width, scale, width);
        std::fill_n(into + t * padded + width, padded - width, fill);
    }
}

template <class T>
class Backward {
    using Vec = simd::Vector<T>;
    static constexpr Index L = simd::lanes<T>;
    static constexpr Index W = panel_width<T>;

    static Index whole(Index n) { return panels<T>(n) * W; }

public:
    Backward(const GradHead<T>& d, Index c)
        : d_(d),
          h_(d.in),
          c_(c),
          keys_(whole(c)),
          wide_k_(whole(h_.dk)),
          wide_v_(whole(h_.dv)),
          delta_(h_.beta != nullptr),
          gated_(h_.gates == 1),
          channels_(h_.gates > 1),
          plain_(!delta_ && h_.gates == 0) {
        for (auto* buffer : {&Kp_, &Qp_, &Dp_, &Xp_, &E_}) std::fill_n(buffer->data(), buffer->size(), T(0));
        pack_rows(d.dS, h_.dk, h_.dv, h_.dv, E_.data(), h_.dk);
        if (plain_) {
            Buffer<T> S(h_.dk * wide_v_);
            std::fill_n(S.data(), S.size(), T(0));
            pack_rows(h_.S, h_.dk, h_.dv, h_.dv, S.data(), h_.dk);
            transpose_panels(S.data(), h_.dk, h_.dv, St_.data(), wide_v_);
        }
    }

    // Without gates and delta rule, chunks in order: dq of tokens [start, start + n), and Sᵀ goes on.
    void forward(Index start, Index n) {
        start_ = start;
        n_ = n;
        K_ = h_.k + start * h_.dk;
        prefetch_.clear();
        const Index next = start + n;
        const auto bytes = [&](Index width) {
            return static_cast<std::size_t>(std::min(c_, h_.N - next) * width) * sizeof(T);
        };
        if (next < h_.N) {
            prefetch_.add(d_.dq + next * h_.dk, bytes(h_.dk));
            prefetch_.add(d_.dO + next * h_.dv, bytes(h_.dv));
            prefetch_.add(h_.v + next * h_.dv, bytes(h_.dv));
            prefetch_.add(h_.k + next * h_.dk, bytes(h_.dk));
        }
        pack_rows(K_, n, h_.dk, h_.dk, Kp_.data(), c_);
        pack_values();
        for (Index q = 0; q < h_.group; ++q) {
            score_gradients(output_gradient(q), T(1), nullptr, P_.data());
            each_tile(n, h_.dk, [&](auto rows, auto vectors, Index i, Index at) {
                query_tile<decltype(rows)::value, decltype(vectors)::value>(q, P_.data(), i, at);
            });
        }
        each_tile(h_.dv, h_.dk, [&](auto rows, auto vectors, Index j, Index at) {  // Sᵀ += Vᵀ K
            constexpr int R = decltype(rows)::value, NV = decltype(vectors)::value;
            simd::Tile<T, R, NV> t;
            T* S = St_.data() + at * wide_v_ + j * W;
            for (int row = 0; row < R; ++row)
                for (int v = 0; v < NV; ++v) t.acc[row][v] = simd::load(S + row * W + v * L);
            t.multiply(values() + j, 1, h_.dv, Kp_.data() + at * c_, W, n_);
            for (int row = 0; row < R; ++row)
                for (int v = 0; v < NV; ++v) simd::store(S + row * W + v * L, t.acc[row][v]);
        });
    }

    // Chunks in reverse: tokens [start, start + n), of which S0 is the state before, in panels [panel][dk][W]; not
    // needed after forward().
    void chunk(Index start, Index n, const T* S0) {
        start_ = start;
        n_ = n;
        S0_ = S0;
        K_ = h_.k + start * h_.dk;
        prefetch();
        if (channels_) {
            pad_rows(h_.g + start * h_.dk, n, h_.dk, g_.data(), wide_k_, T(0), T(1));
            gated::exponentials(g_.data(), n * wide_k_, a_.data());
        } else if (gated_) {
            gated::exponentials(h_.g + start, n, a_.data());
        }
        const gated::FlushUnderflow flush(h_.gates > 0);
        operands();
        scores();
        transpose_panels(E_.data(), h_.dk, h_.dv, Et_.data(), wide_v_);
        if (!plain_) transpose_panels(S0, h_.dk, h_.dv, St_.data(), wide_v_);
        std::fill_n(older_.data(), n, T(0));
        std::fill_n(later_.data(), n, T(0));

        each_tile<true>(n, h_.dv, [&](auto rows, auto vectors, Index i, Index at) {
            value_tile<decltype(rows)::value, decltype(vectors)::value>(i, at);
        });
        for (Index q = 0; q < h_.group; ++q)
            score_gradients(output_gradient(q), T(1), A_.data() + q * c_ * keys_, P_.data() + q * c_ * keys_);
        if (delta_) score_gradients(d_.dv + start * h_.dv, T(-1), M_.data(), R_.data());
        if (channels_) {
            channel_gradients();
        } else {
            for (Index q = 0; !plain_ && q < h_.group; ++q)
                each_tile(n, h_.dk, [&](auto rows, auto vectors, Index i, Index at) {
                    query_tile<decltype(rows)::value, decltype(vectors)::value>(q, P_.data() + q * c_ * keys_, i, at);
                });
            each_tile(n, h_.dk, [&](auto rows, auto vectors, Index i, Index at) {
                key_tile<decltype(rows)::value, decltype(vectors)::value>(i, at);
            });
        }
        if (channels_) through_channels();
        through_ = T(0);
        each_tile(h_.dk, h_.dv, [&](auto rows, auto vectors, Index e, Index at) {
            state_tile<decltype(rows)::value, decltype(vectors)::value>(e, at);
        });
        if (gated_) gate_gradients();
        if (delta_)
            for (Index t = 0; t < n; ++t) d_.dbeta[start + t] = dbeta_[t];
    }

    void finish() {
        for (Index at = 0; at < h_.dv; at += W)
            for (Index e = 0; e < h_.dk; ++e)
                std::copy_n(E_.data() + at * h_.dk + e * W, std::min(W, h_.dv - at), d_.dS + e * h_.dv + at);
    }

private:
    const T* output_gradient(Index q) const { return d_.dO + (q * h_.N + start_) * h_.dv; }
    const T* queries(Index q) const {
        return Q_.size() > 0 ? Q_.data() + q * c_ * wide_k_ : h_.q + (q * h_.N + start_) * h_.dk;
    }                                                                               // rows of Q
    const T* values() const { return delta_ ? U_.data() : h_.v + start_ * h_.dv; }  // rows of U
    Index value_stride() const { return delta_ ? wide_v_ : h_.dv; }
    Index key_stride() const { return channels_ ? wide_k_ : h_.dk; }

    // f(rows, vectors, first row, first column) over the tiles of n rows and `columns` columns, a panel at a time.
    template <bool reversed = false, class F>
    void each_tile(Index n, Index columns, F&& f) {
        for (Index at = 0; at < columns; at += W) {
            const auto row_tile = [&](auto rows, Index i) {
                interrupt::check();
                vectors_of_panel(columns - at, L, [&](auto vectors) { f(rows, vectors, i, at); });
                prefetch_.lines(lines_per_tile);
            };
            if constexpr (reversed) each_row_tile_reversed(n, row_tile);
            else each_row_tile(n, row_tile);
        }
    }

    // The chunk before this one comes next.
    void prefetch() {
        prefetch_.clear();
        if (start_ == 0) return;
        const Index next = start_ - c_;
        const auto bytes = [&](Index width) { return static_cast<std::size_t>(c_ * width) * sizeof(T); };
        if (S0_ && wide_v_ == h_.dv)
            prefetch_.add(S0_ - h_.dk * wide_v_, static_cast<std::size_t>(h_.dk * wide_v_) * sizeof(T));
        prefetch_.add(d_.dk + next * h_.dk, bytes(h_.dk));
        prefetch_.add(d_.dv + next * h_.dv, bytes(h_.dv));
        prefetch_.add(d_.dO + next * h_.dv, bytes(h_.dv));
        prefetch_.add(h_.q + next * h_.dk, bytes(h_.dk));
        prefetch_.add(h_.k + next * h_.dk, bytes(h_.dk));
    }

    // Q = scale · q, gates, and the copies of rows that products read.
    void operands() {
        const Index dk = h_.dk;
        if (channels_) {
            gated::channel_gates(a_.data(), n_, wide_k_, e_.data(), w_.data());
            pad_rows(K_, n_, dk, K_padded_.data(), wide_k_, T(0), T(1));
            gated::multiply_row(Kw_.data(), K_padded_.data(), w_.data(), n_ * wide_k_);
        } else if (gated_) {
            gated::scalar_gates(a_.data(), n_, e_.data(), lambda_.data(), keys_);
            std::copy_n(lambda_.data() + (n_ - 1) * keys_, n_, w_.data());
            std::fill_n(Z_.data(), n_ * keys_, T(0));
        }
        for (Index q = 0; q < h_.group; ++q) {
            const T* from = h_.q + (q * h_.N + start_) * dk;
            T* scaled = Q_.data() + q * c_ * wide_k_;
            if (channels_) pad_rows(from, n_, dk, scaled, wide_k_, T(0), h_.scale);
            else if (Q_.size() > 0) gated::multiply_row(scaled, from, h_.scale, n_ * dk);
            T* decayed = Qe_.data() + q * c_ * wide_k_;
            if (channels_) gated::multiply_row(decayed, queries(q), e_.data(), n_ * wide_k_);
            else if (gated_)
                for (Index t = 0; t < n_; ++t) gated::multiply_row(decayed + t * dk, queries(q) + t * dk, e_[t], dk);
            if (!channels_) pack_rows(queries(q), n_, dk, dk, Qp_.data() + q * c_ * wide_k_, c_);
            pack_rows(output_gradient(q), n_, h_.dv, h_.dv, Dp_.data() + q * c_ * wide_v_, c_);
        }
        if (!channels_) {
            pack_transposed(K_, n_, dk, Kt_.data());
            pack_rows(K_, n_, dk, dk, Kp_.data(), c_);
        }
        if (delta_) {
            pad_rows(d_.dv + start_ * h_.dv, n_, h_.dv, Y_.data(), wide_v_, T(0), T(1));
            for (Index t = 0; t < n_; ++t)
                gated::multiply_row(U_.data() + t * wide_v_, Y_.data() + t * wide_v_, h_.beta[start_ + t], wide_v_);
            if (channels_) gated::multiply_row(Ke_.data(), K_padded_.data(), e_.data(), n_ * wide_k_);
            else
                for (Index t = 0; t < n_; ++t)
                    gated::multiply_row(Ke_.data() + t * dk, K_ + t * dk, gated_ ? e_[t] : T(1), dk);
            std::fill_n(dbeta_.data(), n_, T(0));
        }
        pack_values();
        if (gated_ && delta_)
            for (Index t = 0; t < n_; ++t)
                gated::multiply_row(Uw_.data() + t * wide_v_, U_.data() + t * wide_v_, w_[t], wide_v_);
    }

    // Uᵀ in panels of tokens.
    void pack_values() {
        if (!delta_) return pack_transposed(values(), n_, h_.dv, Ut_.data());
        for (Index j = 0; j < n_; j += L) {
            T* panel = Ut_.data() + j / W * W * h_.dv + j % W;
            for (Index at = 0; at < h_.dv; at += L) {
                Vec square[L];
                for (Index k = 0; k < L; ++k)
                    square[k] = j + k < n_ ? simd::load(U_.data() + (j + k) * wide_v_ + at) : Vec{};
                simd::transpose<T>(square);
                for (Index k = 0; k < std::min(L, h_.dv - at); ++k) simd::store(panel + (at + k) * W, square[k]);
            }
        }
    }

    // A = Λ ⊙ Q Kᵀ and M = Λ ⊙ K Kᵀ up to the diagonal.
    void scores() {
        if (channels_) {
            gated::channel_scores(
                K_padded_.data(), group_, [&](Index q) { return queries(q); }, a_.data(), n_, wide_k_, A_.data(),
                square_, delta_ ? M_.data() : nullptr, keys_, F_.data(), Kf_.data(), Qf_.data());
            return;
        }
        for (Index q = 0; q < h_.group; ++q) masked_scores(queries(q), A_.data() + q * c_ * keys_);
        if (delta_) masked_scores(K_, M_.data());
    }

    void masked_scores(const T* X, T* into) {
        each_score_tile([&](auto rows, auto vectors, Index i, Index key) {
            constexpr int R = decltype(rows)::value, NV = decltype(vectors)::value;
            simd::Tile<T, R, NV> t;
            t.clear();
            t.multiply(X + i * h_.dk, h_.dk, 1, Kt_.data() + key * h_.dk, W, h_.dk);
            for (int row = 0; row < R; ++row) {
                const Index entry = (i + row) * keys_ + key;
                for (int v = 0; v < NV; ++v)
                    simd::store(into + entry + v * L,
                                gated_
                                    ? gated::gated_product<T>(t.acc[row][v], simd::load(lambda_.data() + entry + v * L))
                                    : t.acc[row][v]);
            }
        });
    }

    template <class F>
    void each_score_tile(F&& f) {
        each_row_tile(n_, [&](auto rows, Index i) {
            interrupt::check();
            for (Index key = 0; key < i + decltype(rows)::value; key += W) {
                vectors_of_panel(i + decltype(rows)::value - key, L, [&](auto vectors) { f(rows, vectors, i, key); });
                prefetch_.lines(lines_per_tile);
            }
        });
    }

    // into = sign · X Uᵀ up to the diagonal: dA or dM; with a gate per head times Λ, and Z += sign · X Uᵀ ⊙ scores.
    void score_gradients(const T* X, T sign, const T* scores, T* into) {
        each_score_tile([&](auto rows, auto vectors, Index i, Index key) {
            constexpr int R = decltype(rows)::value, NV = decltype(vectors)::value;
            simd::Tile<T, R, NV> t;
            t.clear();
            t.multiply(X + i * h_.dv, h_.dv, 1, Ut_.data() + key * h_.dv, W, h_.dv);
            for (int row = 0; row < R; ++row) {
                const Index entry = (i + row) * keys_ + key;
                for (int v = 0; v < NV; ++v) {
                    Vec x = sign * t.acc[row][v];
                    if (gated_) {
                        const Vec lambda = simd::load(lambda_.data() + entry + v * L);
                        x = lambda == Vec{} ? lambda : x;
                        simd::store(Z_.data() + entry + v * L,
                                    simd::load(Z_.data() + entry + v * L) + x * simd::load(scores + entry + v * L));
                        x *= lambda;
                    }
                    simd::store(into + entry + v * L, x);
                }
            }
        });
    }

    // Σ of a row of a tile times the numbers from x on, `columns` of which count.
    template <int NV>
    static T dot(const Vec (&row)[NV], const T* x, Index columns) {
        Vec sum = {};
        for (int v = 0; v < NV; ++v)
            sum += row[v] * (columns >= NV * L ? simd::load(x + v * L) : simd::load_part(x + v * L, columns - v * L));
        return simd::sum<T>(sum);
    }

    template <int R, int NV>
    static void scale_rows(simd::Tile<T, R, NV>& t, const T* factors, T sign = T(1)) {
        for (int row = 0; row < R; ++row)
            for (int v = 0; v < NV; ++v) t.acc[row][v] *= sign * factors[row];
    }

    // t += rows i ... of the lower triangular X times the rows of Y (panels, already at the columns); `first` = 1
    // leaves out the diagonal.
    template <int first, int R, int NV>
    void add_lower(simd::Tile<T, R, NV>& t, const T* X, const T* Y, Index i) const {
        t.multiply(X + i * keys_, keys_, 1, Y, W, i);
#pragma GCC unroll 16
        for (int k = 0; k < R; ++k) {
            Vec value[NV];
            for (int v = 0; v < NV; ++v) value[v] = simd::load(Y + (i + k) * W + v * L);
#pragma GCC unroll 16
            for (int row = k + first; row < R; ++row)
                for (int v = 0; v < NV; ++v) t.acc[row][v] += X[(i + row) * keys_ + i + k] * value[v];
        }
    }

    // The same with Xᵀ.
    template <int first, int R, int NV>
    void add_lower_transposed(simd::Tile<T, R, NV>& t, const T* X, const T* Y, Index i) const {
#pragma GCC unroll 16
        for (int k = 0; k < R; ++k) {
            Vec value[NV];
            for (int v = 0; v < NV; ++v) value[v] = simd::load(Y + (i + k) * W + v * L);
#pragma GCC unroll 16
            for (int row = 0; row <= k - first; ++row)
                for (int v = 0; v < NV; ++v) t.acc[row][v] += X[(i + k) * keys_ + i + row] * value[v];
        }
        t.multiply(X + (i + R) * keys_ + i, 1, keys_, Y + (i + R) * W, W, n_ - i - R);
    }

    // dU = Aᵀ D + Kw E; with the delta rule dy_t = du_t - Σ_{s>t} M_st dx_s, dx_t = β_t dy_t; dv = dU or dX.
    template <int R, int NV>
    void value_tile(Index i, Index at) {
        simd::Tile<T, R, NV> t;
        t.clear();
        t.multiply((channels_ ? Kw_.data() : K_) + i * key_stride(), key_stride(), 1, E_.data() + at * h_.dk, W, h_.dk);
        const Index columns = h_.dv - at;
        if (gated_) {
            scale_rows(t, w_.data() + i);
            for (int row = 0; row < R; ++row)
                later_[i + row] += dot<NV>(t.acc[row], values() + (i + row) * value_stride() + at, columns);
        }
        for (Index q = 0; q < h_.group; ++q)
            add_lower_transposed<0>(t, A_.data() + q * c_ * keys_, Dp_.data() + q * c_ * wide_v_ + at * c_, i);
        T* dV = d_.dv + (start_ + i) * h_.dv + at;
        if (delta_) {
            T* X = Xp_.data() + at * c_;
            simd::Tile<T, R, NV> rest;
            rest.clear();
            rest.multiply(M_.data() + (i + R) * keys_ + i, 1, keys_, X + (i + R) * W, W, n_ - i - R);
            for (int row = 0; row < R; ++row)
                for (int v = 0; v < NV; ++v) t.acc[row][v] -= rest.acc[row][v];
#pragma GCC unroll 16
            for (int k = R - 1; k >= 0; --k) {
                dbeta_[i + k] += dot<NV>(t.acc[k], Y_.data() + (i + k) * wide_v_ + at, NV * L);
                for (int v = 0; v < NV; ++v) {
                    t.acc[k][v] *= h_.beta[start_ + i + k];
                    simd::store(X + (i + k) * W + v * L, t.acc[k][v]);
                }
#pragma GCC unroll 16
                for (int row = 0; row < k; ++row)
                    for (int v = 0; v < NV; ++v) t.acc[row][v] -= M_[(i + k) * keys_ + i + row] * t.acc[k][v];
            }
        }
        for (int row = 0; row < R; ++row) store_row<T, NV>(dV + row * h_.dv, t.acc[row], columns);
    }

    // dq = scale · (e ⊙ (dO S_0ᵀ) + (Λ ⊙ dA) K)
    template <int R, int NV>
    void query_tile(Index q, const T* P, Index i, Index at) {
        simd::Tile<T, R, NV> t;
        t.clear();
        t.multiply(output_gradient(q) + i * h_.dv, h_.dv, 1, St_.data() + at * wide_v_, W, h_.dv);
        const Index columns = h_.dk - at;
        if (gated_) {
            scale_rows(t, e_.data() + i);
            for (int row = 0; row < R; ++row)
                older_[i + row] += dot<NV>(t.acc[row], queries(q) + (i + row) * h_.dk + at, columns);
        }
        add_lower<0>(t, P, Kp_.data() + at * c_, i);
        T* into = d_.dq + (q * h_.N + start_ + i) * h_.dk + at;
        for (int row = 0; row < R; ++row) {
            for (int v = 0; v < NV; ++v) t.acc[row][v] *= h_.scale;
            store_row<T, NV>(into + row * h_.dk, t.acc[row], columns);
        }
    }

    // dk = w ⊙ (U Eᵀ) - e ⊙ (dX S_0ᵀ) + (Λ ⊙ dA)ᵀ Q + (Λ ⊙ dM) K + (Λ ⊙ dM)ᵀ K
    template <int R, int NV>
    void key_tile(Index i, Index at) {
        simd::Tile<T, R, NV> t;
        t.clear();
        const Index columns = h_.dk - at;
        if (delta_) {
            t.multiply(d_.dv + (start_ + i) * h_.dv, h_.dv, 1, St_.data() + at * wide_v_, W, h_.dv);
            const T one[tile_rows] = {1, 1, 1, 1, 1, 1};
            scale_rows(t, gated_ ? e_.data() + i : one, T(-1));
            if (gated_)
                for (int row = 0; row < R; ++row)
                    older_[i + row] += dot<NV>(t.acc[row], K_ + (i + row) * h_.dk + at, columns);
            const T* U = gated_ ? Uw_.data() : U_.data();
            t.multiply(U + i * wide_v_, wide_v_, 1, Et_.data() + at * wide_v_, W, h_.dv);
        } else {
            t.multiply(values() + i * h_.dv, h_.dv, 1, Et_.data() + at * wide_v_, W, h_.dv);
            if (gated_) scale_rows(t, w_.data() + i);
        }
        for (Index q = 0; q < h_.group; ++q)
            add_lower_transposed<0>(t, P_.data() + q * c_ * keys_, Qp_.data() + q * c_ * wide_k_ + at * c_, i);
        if (delta_) {
            add_lower<1>(t, R_.data(), Kp_.data() + at * c_, i);
            add_lower_transposed<1>(t, R_.data(), Kp_.data() + at * c_, i);
        }
        for (int row = 0; row < R; ++row)
            store_row<T, NV>(d_.dk + (start_ + i + row) * h_.dk + at, t.acc[row], columns);
    }

    // dS_0 = e_last ⊙ E + Qeᵀ D - Keᵀ dX, in rows e ...; through_ is the sum of e_last ⊙ S_0 ⊙ E.
    template <int R, int NV>
    void state_tile(Index e, Index at) {
        simd::Tile<T, R, NV> t;
        t.clear();
        if (delta_) {
            t.multiply(Ke_.data() + e, 1, key_stride(), Xp_.data() + at * c_, W, n_);
            const T one[tile_rows] = {1, 1, 1, 1, 1, 1};
            scale_rows(t, one, T(-1));
        }
        for (Index q = 0; q < h_.group; ++q)
            t.multiply((h_.gates > 0 ? Qe_.data() + q * c_ * wide_k_ : queries(q)) + e, 1, key_stride(),
                       Dp_.data() + q * c_ * wide_v_ + at * c_, W, n_);
        T* E = E_.data() + at * h_.dk + e * W;
        Vec sum = {};
        for (int row = 0; row < R; ++row) {
            const T carry = gated_ ? e_[n_ - 1] : channels_ ? e_[(n_ - 1) * wide_k_ + e + row] : T(1);
            for (int v = 0; v < NV; ++v) {
                const Vec before = carry * simd::load(E + row * W + v * L);
                if (gated_) sum += before * simd::load(S0_ + at * h_.dk + (e + row) * W + v * L);
                simd::store(E + row * W + v * L, before + t.acc[row][v]);
            }
        }
        if (gated_) through_ += simd::sum<T>(sum);
    }

    // dg_s = Σ_{t>=s} (Σ_{j<s} Z_tj + older_t) + Σ_{j<s} later_j + through: rows of Z are added from the last to row s,
    // and of these sums the first s.
    void gate_gradients() {
        T* columns = Z_.data() + (n_ - 1) * keys_;  // Σ_{t>=s} Z_tj for j < s, in place of the last row
        T older = T(0);
        for (Index s = n_ - 1; s >= 0; --s) {
            const T* row = Z_.data() + s * keys_;
            if (row != columns)
                for (Index j = 0; j < s; ++j) columns[j] += row[j];
            older += older_[s];
            T sum = through_ + older;
            Vec total = {};
            Index j = 0;
            for (; j + L <= s; j += L) total += simd::load(columns + j);
            total += simd::load_part(columns + j, s - j);
            d_.dg[start_ + s] = sum + simd::sum<T>(total);
        }
        T later = T(0);
        for (Index s = 0; s < n_; ++s) {
            d_.dg[start_ + s] += later;
            later += later_[s];
        }
    }

    // ------ a gate per key channel

    // product_ = rows of X (n rows of dv, `stride` apart) times the panels of Y.
    void wide_product(const T* X, Index stride, const T* Y) {
        each_tile(n_, wide_k_, [&](auto rows, auto vectors, Index i, Index at) {
            constexpr int R = decltype(rows)::value, NV = decltype(vectors)::value;
            simd::Tile<T, R, NV> t;
            t.clear();
            t.multiply(X + i * stride, stride, 1, Y + at * wide_v_, W, h_.dv);
            for (int row = 0; row < R; ++row)
                store_row<T, NV>(product_.data() + (i + row) * wide_k_ + at, t.acc[row], wide_k_ - at);
        });
    }

    // product_ [rows] = block X [rows × count] of a score matrix, or its transpose, times rows of Y.
    void block_product(const T* X, bool transposed, Index rows, const T* Y, Index count) {
        for (Index at = 0; at < wide_k_; at += W) {
            each_row_tile(rows, [&](auto tile_rows, Index i) {
                constexpr int R = decltype(tile_rows)::value;
                simd::Tile<T, R, panel_vectors> t;
                t.clear();
                t.multiply(X + (transposed ? i : i * keys_), transposed ? 1 : keys_, transposed ? keys_ : 1, Y + at,
                           wide_k_, count);
                for (int row = 0; row < R; ++row)
                    for (int v = 0; v < panel_vectors; ++v)
                        simd::store(product_.data() + (i + row) * wide_k_ + at + v * L, t.acc[row][v]);
            });
        }
    }

    // into += x ⊙ y, over whole vectors.
    static void add_products(T* into, const T* x, const T* y, Index n, T factor = T(1)) {
        for (Index i = 0; i < n; i += L)
            simd::store(into + i, simd::load(into + i) + factor * simd::load(x + i) * simd::load(y + i));
    }
    static void add_rows(T* into, const T* x, Index n) {
        for (Index i = 0; i < n; i += L) simd::store(into + i, simd::load(into + i) + simd::load(x + i));
    }

    // dG of n tokens += what reaches over their gates: the sums of the rows of `terms` [n] from each token on.
    void add_suffix_sums(const T* terms, Index n, T* dG) {
        std::fill_n(sum_.data(), wide_k_, T(0));
        for (Index t = n - 1; t >= 0; --t) {
            add_rows(sum_.data(), terms + t * wide_k_, wide_k_);
            add_rows(dG + t * wide_k_, sum_.data(), wide_k_);
        }
    }

    // The same with the sums of the rows before each token.
    void add_prefix_sums(const T* terms, Index n, T* dG) {
        std::fill_n(sum_.data(), wide_k_, T(0));
        for (Index t = 0; t + 1 < n; ++t) {
            add_rows(sum_.data(), terms + t * wide_k_, wide_k_);
            add_rows(dG + (t + 1) * wide_k_, sum_.data(), wide_k_);
        }
    }

    // dq, dk and the part of dg that does not pass through the whole chunk.
    void channel_gradients() {
        const Index size = n_ * wide_k_;
        std::fill_n(dG_.data(), size, T(0));
        T* terms = terms_.data();
        // Through the states: dKw = U Eᵀ, dKe = -dX S_0ᵀ.
        wide_product(values(), value_stride(), Et_.data());
        gated::multiply_row(dK_.data(), product_.data(), w_.data(), size);
        gated::multiply_row(terms, product_.data(), Kw_.data(), size);
        add_prefix_sums(terms, n_, dG_.data());
        std::fill_n(terms, size, T(0));
        if (delta_) {
            wide_product(d_.dv + start_ * h_.dv, h_.dv, St_.data());
            add_products(dK_.data(), product_.data(), e_.data(), size, T(-1));
            add_products(terms, product_.data(), Ke_.data(), size, T(-1));
        }
        for (Index q = 0; q < h_.group; ++q) {
            const T* Q = Q_.data() + q * c_ * wide_k_;
            const T* dA = P_.data() + q * c_ * keys_;
            wide_product(output_gradient(q), h_.dv, St_.data());
            gated::multiply_row(dQ_.data(), product_.data(), e_.data(), size);
            add_products(terms, product_.data(), Qe_.data() + q * c_ * wide_k_, size);
            for (Index t = 0; t < n_; ++t) {  // the diagonal
                const Vec x = Vec{} + dA[t * keys_ + t];
                for (Index e = t * wide_k_; e < (t + 1) * wide_k_; e += L) {
                    simd::store(dQ_.data() + e, simd::load(dQ_.data() + e) + x * simd::load(K_padded_.data() + e));
                    simd::store(dK_.data() + e, simd::load(dK_.data() + e) + x * simd::load(Q + e));
                }
            }
            split_gradients(Q, dA, dQ_.data());
            for (Index t = 0; t < n_; ++t)
                gated::multiply_row(d_.dq + (q * h_.N + start_ + t) * h_.dk, dQ_.data() + t * wide_k_, h_.scale, h_.dk);
        }
        add_suffix_sums(terms, n_, dG_.data());
        if (delta_) split_gradients(K_padded_.data(), R_.data(), dK_.data());
        for (Index t = 0; t < n_; ++t) std::copy_n(dK_.data() + t * wide_k_, h_.dk, d_.dk + (start_ + t) * h_.dk);
    }

    // Scores of rows X with the keys below the diagonal, whose gradients are G: adds those of X to dX, of the keys to
    // dK_, of the gates to dG_.
    void split_gradients(const T* X, const T* G, T* dX) {
        gated::each_pair_of_blocks(n_, 1, [&](Index first, Index m, Index end) {
            interrupt::check();
            const Index second = first + m, count = end - second, upper = first * wide_k_, lower = second * wide_k_;
            T *f = F_.data(), *f_lower = f + m * wide_k_, *k = Kf_.data(), *q = Qf_.data();
            gated::split_factors(a_.data() + upper, m, end - first, wide_k_, f);
            gated::multiply_row(k, K_padded_.data() + upper, f, m * wide_k_);
            gated::multiply_row(q, X + lower, f_lower, count * wide_k_);
            const T* block = G + second * keys_ + first;
            // Rows of product_ are gradients of the scaled rows: times those rows they are terms of dg.
            block_product(block, false, count, k, m);
            add_products(dX + lower, product_.data(), f_lower, count * wide_k_);
            gated::multiply_row(terms_of_block_.data(), q, product_.data(), count * wide_k_);
            add_suffix_sums(terms_of_block_.data(), count, dG_.data() + lower);
            block_product(block, true, m, q, count);
            add_products(dK_.data() + upper, product_.data(), f, m * wide_k_);
            gated::multiply_row(terms_of_block_.data(), k, product_.data(), m * wide_k_);
            add_prefix_sums(terms_of_block_.data(), m, dG_.data() + upper);
        });
    }

    // dg of every token += e_last ⊙ S_0 ⊙ E, channel by channel.
    void through_channels() {
        for (Index e = 0; e < h_.dk; ++e) {
            Vec sum = {};
            for (Index at = 0; at < h_.dv; at += W)
                for (Index v = 0; v < std::min(W, h_.dv - at); v += L)
                    sum += simd::load(S0_ + at * h_.dk + e * W + v) * simd::load(E_.data() + at * h_.dk + e * W + v);
            const T through = e_[(n_ - 1) * wide_k_ + e] * simd::sum<T>(sum);
            for (Index t = 0; t < n_; ++t) d_.dg[(start_ + t) * h_.dk + e] = dG_[t * wide_k_ + e] + through;
        }
    }

    static constexpr int lines_per_tile = 12;

    const GradHead<T>& d_;
    const gated::Head<T>& h_;
    Index c_, keys_, wide_k_, wide_v_;  // longest chunk; the same, dk and dv in whole panels
    bool delta_, gated_, channels_;     // gated: one gate a head
    bool plain_;                        // neither gates nor delta rule
    Index group_ = h_.group, rows_k_ = c_ * wide_k_, rows_v_ = c_ * wide_v_, square_ = c_ * keys_;
    Buffer<T> A_{group_ * square_}, P_{group_ * square_}, M_{delta_ ? square_ : 0},
        R_{delta_ ? square_ : 0};  // P = Λ ⊙ dA, R = Λ ⊙ dM
    Buffer<T> Z_{gated_ ? square_ : 0}, lambda_{gated_ ? square_ : 0};
    Buffer<T> a_{channels_ ? rows_k_ : c_}, e_{channels_ ? rows_k_ : c_}, w_{channels_ ? rows_k_ : c_};
    // Panels: Kᵀ, Uᵀ; K, Q, dO, dX; E = dS_1, and the transposes of it and of S_0.
    Buffer<T> Kt_{channels_ ? 0 : h_.dk * keys_}, Ut_{h_.dv * keys_};
    Buffer<T> Kp_{rows_k_}, Qp_{group_ * rows_k_}, Dp_{group_ * rows_v_}, Xp_{delta_ ? rows_v_ : 0};
    Buffer<T> E_{h_.dk * wide_v_}, Et_{wide_k_ * wide_v_}, St_{wide_k_ * wide_v_};
    // Rows: scale · q, e ⊙ Q, e ⊙ K, w ⊙ K, w ⊙ U, the residuals y, U.
    Buffer<T> Q_{channels_ || h_.scale != T(1) ? group_ * rows_k_ : 0}, Qe_{h_.gates > 0 ? group_*rows_k_ : 0};
    Buffer<T> Ke_{delta_ ? rows_k_ : 0}, Kw_{channels_ ? rows_k_ : 0}, Uw_{gated_ && delta_ ? rows_v_ : 0},
        Y_{delta_ ? rows_v_ : 0}, U_{delta_ ? rows_v_ : 0};
    Buffer<T> older_{c_}, later_{c_}, dbeta_{c_};  // dQe_t · Qe_t + dKe_t · Ke_t, and dKw_j · Kw_j
    // With a gate per channel: factors, keys and queries times them, products, gradients, padded inputs.
    Index split_ = channels_ ? rows_k_ : 0;
    Buffer<T> F_{split_}, Kf_{split_}, Qf_{split_}, product_{split_}, dK_{split_}, dQ_{split_}, K_padded_{split_},
        g_{split_}, dG_{split_}, terms_{split_}, terms_of_block_{split_};
    Buffer<T> sum_{channels_ ? wide_k_ : 0};
    Prefetch prefetch_;
    Index start_ = 0, n_ = 0;
    const T* S0_ = nullptr;
    const T* K_ = nullptr;
    T through_ = T(0);
};

// The states before the chunks, in panels without the padding of the last one: dk·dv numbers each.
template <class T>
class States {
    static constexpr Index W = panel_width<T>;

public:
    States(const gated::Head<T>& h, Index count)
        : rows_(h.dk),
          whole_(h.dv / W * W),
          rest_(h.dv - whole_),
          kept_(count * h.dk * h.dv),
          padded_(rest_ > 0 ? h.dk * (whole_ + W) : 0) {
        std::fill_n(padded_.data(), padded_.size(), T(0));
    }

    void keep(Index i, const T* panels) {
        T* into = kept_.data() + i * rows_ * (whole_ + rest_);
        std::copy_n(panels, rows_ * whole_, into);
        for (Index e = 0; e < rows_; ++e)
            std::copy_n(panels + rows_ * whole_ + e * W, rest_, into + rows_ * whole_ + e * rest_);
    }

    // In whole panels; until the next call.
    const T* get(Index i) {
        const T* from = kept_.data() + i * rows_ * (whole_ + rest_);
        if (rest_ == 0) return from;
        std::copy_n(from, rows_ * whole_, padded_.data());
        for (Index e = 0; e < rows_; ++e)
            std::copy_n(from + rows_ * whole_ + e * rest_, rest_, padded_.data() + rows_ * whole_ + e * W);
        return padded_.data();
    }

private:
    Index rows_, whole_, rest_;
    Buffer<T> kept_, padded_;
};

template <class T>
void backward(const GradHead<T>& d, Index c) {
    const Index N = d.in.N, chunks = (N + c - 1) / c;
    if (chunks == 0) return;
    const bool plain = !d.in.beta && d.in.gates == 0;
    States<T> states(d.in, plain ? 0 : chunks);
    if (!plain) {
        gated::Head<T> sweep = d.in;
        sweep.group = 0;
        gated::Chunks<T> forward(sweep, c, 0, sweep.dv, sweep.beta ? d.dv : nullptr);
        for (Index i = 0; i < chunks; ++i) {
            states.keep(i, forward.state().data());
            if (i + 1 < chunks || sweep.beta) forward.advance(i * c, std::min(c, N - i * c));
        }
    }
    Backward<T> pass(d, c);
    for (Index i = 0; plain && i < chunks; ++i) {
        pass.forward(i * c, std::min(c, N - i * c));
    }
    for (Index i = chunks - 1; i >= 0; --i) {
        pass.chunk(i * c, std::min(c, N - i * c), plain ? nullptr : states.get(i));
    }
    pass.finish();
}

}  // namespace

template <class T>
void run_chunkwise_grad(const GradProblem<T>& p) {
    parallel_for(p.in.all_heads(), [&](Index h) { backward(p.head(h), p.in.chunk); });
}

template void run_chunkwise_grad<float>(const GradProblem<float>&);
template void run_chunkwise_grad<double>(const GradProblem<double>&);

}  // namespace causeway::gradient
