// The chunkwise backward pass in its definition: products over chunks of tokens, the gradient of the state handed from
// chunk to chunk, last chunk first. What a chunk computed is computed again from the state before it, so only the
// states at the chunk boundaries are stored.
//
// In a chunk, with the letters of core/gated/chunkwise.hpp and Qe = e ⊙ Q, Ke = e ⊙ K, Kw = w ⊙ K (claims F8, G9):
//
//   A = Λ ⊙ Q Kᵀ,  M = Λ ⊙ K Kᵀ below the diagonal,  Y = V - Ke S_0 - M U,  U = diag(β) Y  (forward substitution)
//   O = scale · (Qe S_0 + A U),  S_1 = e_last ⊙ S_0 + Kwᵀ U
//
// and backwards, with D = scale · dO and E = dS_1:
//
//   dA = lower(D Uᵀ),  dU = Aᵀ D + Kw E,  dQe = D S_0ᵀ,  dKw = U Eᵀ
//   dY = dU - Mᵀ dX,  dX = diag(β) dY  (back substitution),  dβ_t = dY_t · Y_t,  dV = dX
//   dM = -(dX Uᵀ below the diagonal),  dKe = -dX S_0ᵀ
//   dS_0 = e_last ⊙ E + Qeᵀ D - Keᵀ dX
//   dQ = e ⊙ dQe + (Λ ⊙ dA) K,  dK = w ⊙ dKw + (Λ ⊙ dA)ᵀ Q + e ⊙ dKe + (Λ ⊙ dM) K + (Λ ⊙ dM)ᵀ K
//
// Without the delta rule U = V, dV = dU and what has an M, X or Ke drops out. A token s moves ln a_s everything that
// reaches over it, from before s to s or later, so dg_s is the sum of all such terms: with Z = dA ⊙ A + dM ⊙ M
//
//   dg_s = Σ_{t>=s} (Σ_{j<s} Z_tj + dQe_t · Qe_t + dKe_t · Ke_t) + Σ_{j<s} dKw_j · Kw_j + <e_last ⊙ S_0, E>
//
// Nothing here is a difference of large sums (as q_t · dq_t - k_t · dk_t summed over the sequence would be): strong
// gates keep their relative accuracy, and the gradient of a gate of exactly 0 is 0.
#pragma once

#include <algorithm>

#include "core/gated/chunkwise.hpp"
#include "core/gradient/problem.hpp"

namespace causeway::gradient {

// Y += Aᵀ X, A lower triangular; what stands above its diagonal is not read, as in add_lower_product.
template <class Out, class L, class In>
void add_lower_transposed_product(Out&& Y, const L& A, const In& X) {
    using T = typename std::decay_t<Out>::Scalar;
    constexpr Index strip = std::is_floating_point_v<T> ? 16 : 1;
    for (Index start = 0; start < A.cols(); start += strip) {
        const Index end = std::min(start + strip, A.cols()), below = A.rows() - end;
        const Index n = end - start;
        if (below > 0)
            add_product(Y.middleRows(start, n), A.block(end, start, below, n).transpose(), X.bottomRows(below));
        for (Index j = start; j < end; ++j)
            for (Index t = j; t < end; ++t) Y.row(j) += A(t, j) * X.row(t);
    }
}

// Y += diag(f) X.
template <class Out, class In, class Factors>
void add_scaled_rows(Out&& Y, const In& X, const Factors& f) {
    for (Index t = 0; t < Y.rows(); ++t) Y.row(t) += f(t) * X.row(t);
}

// The channels of the keys that share a gate, and its running products over one chunk: Λ with zeros above the diagonal,
// e, and w. One for all channels, or without gates (all of them 1), or one for each channel.
template <class T>
struct GateColumn {
    Index first = 0, width;
    Scratch<T> lambda, e, w;

    GateColumn(const gated::Head<T>& h, Index n) : width(h.gates > 1 ? 1 : h.dk), lambda(n, n), e(1, n), w(1, n) {}

    static Index count(const gated::Head<T>& h) { return std::max<Index>(h.gates, 1); }

    void set(const gated::Head<T>& h, Index start, Index column) {
        using std::exp;
        first = column * width;
        lambda.setConstant(T(0));
        for (Index t = 0; t < e.cols(); ++t) {
            const T a = h.gates > 0 ? T(exp(h.g[(start + t) * h.gates + column])) : T(1);
            e(0, t) = t == 0 ? a : e(0, t - 1) * a;
            for (Index j = 0; j < t; ++j) lambda(t, j) = lambda(t - 1, j) * a;
            lambda(t, t) = T(1);
        }
        w = lambda.row(e.cols() - 1);
    }

    template <class M>
    auto channels(M&& X) const {
        return X.middleCols(first, width);
    }
};

// Tokens [start, start + n) as one chunk; S0 is the state before it, d.dS goes from after it to before it. Memory
// (group + 5)·n² + (2·group + 4)·n·dk + (group + 3)·n·dv. With a gate per channel a triangular product is one for each
// channel, of width one: n² multiplies more, dk times.
template <class T>
class OneChunk {
public:
    OneChunk(const GradHead<T>& d, Index start, Index n, const ConstView<T>& S0)
        : d_(d),
          h_(d.in),
          start_(start),
          n_(n),
          group_(d.in.group),
          delta_(d.in.beta != nullptr),
          S0_(S0),
          E_(d.dState()),
          gate_(d.in, n),
          A_(group_ * n, n),
          M_(only_delta(), n),
          scores_(n, n),
          P_(n, n),
          Z_(n, n),
          Qe_(group_ * n, h_.dk),
          Ke_(only_delta(), h_.dk),
          Kw_(n, h_.dk),
          D_(group_ * n, h_.dv),
          U_(n, h_.dv),
          Y_(only_delta(), h_.dv),
          dU_(n, h_.dv),
          dQe_(group_ * n, h_.dk),
          dKe_(only_delta(), h_.dk),
          dKw_(n, h_.dk),
          through_(1, GateColumn<T>::count(h_)) {
        for (auto* X : {&A_, &M_, &Qe_, &Ke_, &Kw_, &dU_, &dQe_, &dKe_, &dKw_, &through_}) X->setConstant(T(0));
    }

    void run() {
        make_scores();
        make_values();
        through_output();
        if (delta_) through_delta_rule();
        d_.dV().middleRows(start_, n_) = dU_;
        for (Index c = 0; c < GateColumn<T>::count(h_); ++c) through_scores(c);
    }

private:
    Index only_delta() const { return delta_ ? n_ : 0; }
    auto K() const { return h_.K().middleRows(start_, n_); }
    auto Q(Index i) const { return h_.Q(i).middleRows(start_, n_); }
    // The part of the i-th query head.
    auto of(Scratch<T>& X, Index i) const { return X.middleRows(i * n_, n_); }

    // The lower triangle of X Yᵀ.
    template <class Out, class X, class Y>
    static void lower(Out&& out, const X& x, const Y& y) {
        masked_product<T>(out, x, y, nullptr);
    }

    // Of the forward pass: A, M, Qe, Ke, Kw.
    void make_scores() {
        for (Index c = 0; c < GateColumn<T>::count(h_); ++c) {
            interrupt::check();
            gate_.set(h_, start_, c);
            const auto rows = K();
            const auto k = gate_.channels(rows);
            add_scaled_rows(gate_.channels(Kw_), k, gate_.w);
            for (Index i = 0; i < group_; ++i) {
                const auto queries = Q(i);
                add_scaled_rows(gate_.channels(of(Qe_, i)), gate_.channels(queries), gate_.e);
                lower(scores_, gate_.channels(queries), k);
                of(A_, i) += scores_.cwiseProduct(gate_.lambda);
            }
            if (!delta_) continue;
            add_scaled_rows(gate_.channels(Ke_), k, gate_.e);
            lower(scores_, k, k);
            M_ += scores_.cwiseProduct(gate_.lambda);
        }
    }

    // Of the forward pass: U and, by forward substitution, Y.
    void make_values() {
        U_ = h_.V().middleRows(start_, n_);
        if (!delta_) return;
        M_.diagonal().setConstant(T(0));
        Y_.setConstant(T(0));
        add_product(Y_, Ke_, S0_);
        for (Index t = 0; t < n_; ++t) {
            interrupt::check();
            auto y = Y_.row(t);
            add_product(y, M_.row(t).head(t), U_.topRows(t));
            y = U_.row(t) - y;
            U_.row(t) = h_.beta[start_ + t] * y;
        }
    }

    // Through the output and the state: dU, dKw, dQe, E becomes e_last ⊙ E + Qeᵀ D, and A becomes dA.
    void through_output() {
        add_product(dKw_, U_, E_.transpose());
        add_product(dU_, Kw_, E_);
        for (Index i = 0; i < group_; ++i) {
            of(D_, i) = h_.scale * d_.dOut(i).middleRows(start_, n_);
            add_lower_transposed_product(dU_, of(A_, i), of(D_, i));
            lower(of(A_, i), of(D_, i), U_);  // dA from here on
        }
        add_product(dQe_, D_, S0_.transpose());
        for (Index c = 0; c < h_.gates; ++c) {
            gate_.set(h_, start_, c);
            const T last = gate_.e(0, n_ - 1);
            for (Index x = gate_.first; x < gate_.first + gate_.width; ++x) {
                E_.row(x) *= last;
                for (Index j = 0; j < h_.dv; ++j) through_(0, c) += S0_(x, j) * E_(x, j);
            }
        }
        add_product(E_, Qe_.transpose(), D_);
    }

    // Through the delta rule: dU becomes dX by back substitution, M becomes dM.
    void through_delta_rule() {
        for (Index t = n_ - 1; t >= 0; --t) {
            interrupt::check();
            auto dx = dU_.row(t);
            for (Index j = t + 1; j < n_; ++j) dx -= M_(j, t) * dU_.row(j);
            T sum(0);
            for (Index j = 0; j < h_.dv; ++j) sum += dx(0, j) * Y_(t, j);
            d_.dbeta[start_ + t] = sum;
            dx *= h_.beta[start_ + t];
        }
        Y_ = -dU_;
        add_product(dKe_, Y_, S0_.transpose());
        add_product(E_, Ke_.transpose(), Y_);
        lower(M_, Y_, U_);  // dM from here on
        M_.diagonal().setConstant(T(0));
    }

    // Through the scores and the gates: dQ, dK and dg of the channels of gate c.
    void through_scores(Index c) {
        interrupt::check();
        gate_.set(h_, start_, c);
        const auto rows = K();
        const auto k = gate_.channels(rows);
        auto dk = gate_.channels(d_.dK().middleRows(start_, n_));
        Z_.setConstant(T(0));
        dk.setConstant(T(0));
        add_scaled_rows(dk, gate_.channels(dKw_), gate_.w);
        for (Index i = 0; i < group_; ++i) {
            const auto queries = Q(i);
            const auto q = gate_.channels(queries);
            auto dq = gate_.channels(d_.dQ(i).middleRows(start_, n_));
            P_ = of(A_, i).cwiseProduct(gate_.lambda);
            dq.setConstant(T(0));
            add_scaled_rows(dq, gate_.channels(of(dQe_, i)), gate_.e);
            add_lower_product(dq, P_, k);
            add_lower_transposed_product(dk, P_, q);
            if (h_.gates > 0) add_reach(q, k);
        }
        if (delta_) {
            P_ = M_.cwiseProduct(gate_.lambda);
            add_scaled_rows(dk, gate_.channels(dKe_), gate_.e);
            add_lower_product(dk, P_, k);
            add_lower_transposed_product(dk, P_, k);
            if (h_.gates > 0) add_reach(k, k);
        }
        if (h_.gates > 0) gate_gradient(c);
    }

    // Z += P ⊙ X Yᵀ.
    template <class X, class Y>
    void add_reach(const X& x, const Y& y) {
        lower(scores_, x, y);
        Z_ += P_.cwiseProduct(scores_);
    }

    // dg of gate c: what reaches over each of its tokens.
    void gate_gradient(Index c) {
        // Row t of Z with what reached t from S_0 in front, then likewise the state after the chunk: at s the sum of
        // what is older than s. dot adds over the channels of the gate.
        auto dg = d_.dG().col(c).segment(start_, n_);
        dg.setConstant(T(0));
        const auto dot = [&](const auto& X, const auto& W, Index row) {
            T sum(0);
            for (Index x = gate_.first; x < gate_.first + gate_.width; ++x) sum += X(row, x) * W(row, x);
            return sum;
        };
        for (Index t = 0; t < n_; ++t) {
            T older = delta_ ? dot(dKe_, Ke_, t) : T(0);
            for (Index i = 0; i < group_; ++i) older += dot(dQe_, Qe_, i * n_ + t);
            for (Index s = 0; s <= t; ++s) {
                dg(s) += older;
                older += Z_(t, s);
            }
        }
        T older = through_(0, c);
        for (Index s = 0; s < n_; ++s) {
            dg(s) += older;
            older += dot(dKw_, Kw_, s);
        }
    }

    const GradHead<T>& d_;
    const gated::Head<T>& h_;
    Index start_, n_, group_;
    bool delta_;
    const ConstView<T>& S0_;
    View<T> E_;
    GateColumn<T> gate_;
    Scratch<T> A_, M_, scores_, P_, Z_;
    Scratch<T> Qe_, Ke_, Kw_, D_, U_, Y_, dU_;
    Scratch<T> dQe_, dKe_, dKw_, through_;
};

template <class T>
void one_chunk(const GradHead<T>& d, Index start, Index n, const ConstView<T>& S0) {
    OneChunk<T>(d, start, n, S0).run();
}

// O(N·(dk·dv + c·(dk + dv))) time for chunks of c tokens; beside a chunk's own memory a state for each of the N/c
// chunks.
template <class T>
void chunkwise(const GradHead<T>& d, Index c) {
    const gated::Head<T>& h = d.in;
    const Index chunks = (h.N + c - 1) / c;
    Scratch<T> states(chunks * h.dk, h.dv);
    auto sweep = h;  // the forward pass without queries: only its states are wanted
    sweep.group = 0;
    for (Index i = 0; i < chunks; ++i) {
        auto S = states.middleRows(i * h.dk, h.dk);
        if (i == 0) {
            S = h.state();
            continue;
        }
        S = states.middleRows((i - 1) * h.dk, h.dk);
        sweep.S = S.data();
        gated::one_chunk(sweep, (i - 1) * c, c);
    }
    for (Index i = chunks - 1; i >= 0; --i)
        one_chunk(d, i * c, std::min(c, h.N - i * c), ConstView<T>(states.data() + i * h.dk * h.dv, h.dk, h.dv));
}

}  // namespace causeway::gradient
