// The general rule of core/gated/general/problem.hpp differentiated token by token, last token first.
#pragma once

#include "core/gated/general/recurrent.hpp"
#include "core/gradient/problem.hpp"

namespace causeway::gradient {

// One head, with the gradients of everything its outputs were made of. `in` is the problem of the forward pass: its S
// is the state before the first token and is not changed, its O is not read.
template <class T>
struct GeneralGradHead {
    gated::GeneralHead<T> in;
    const T* dO = nullptr;  // [group, N, dv], in.step rows from head to head
    T* dq = nullptr;        // [group, N, dk], likewise; like the next ones not read
    T* dk = nullptr;        // [N, dk]
    T* dv = nullptr;        // [N, dv]
    T* da = nullptr;        // [N, gates]; null without a
    T* du = nullptr;        // [N, dk]; null without u and w
    T* dw = nullptr;        // [N, dk]
    T* dS = nullptr;        // [dk, dv]: on entry with respect to the last state, on return to the first one

    ConstView<T> dOut(Index i) const { return {dO + i * in.step * in.dv, in.N, in.dv}; }
    View<T> dQ(Index i) const { return {dq + i * in.step * in.dk, in.N, in.dk}; }
    View<T> dK() const { return {dk, in.N, in.dk}; }
    View<T> dV() const { return {dv, in.N, in.dv}; }
    View<T> dA() const { return {da, in.N, in.gates}; }
    View<T> dU() const { return {du, in.N, in.dk}; }
    View<T> dW() const { return {dw, in.N, in.dk}; }
    View<T> dState() const { return {dS, in.dk, in.dv}; }

    // Tokens [start, start + n) alone, whose state before them is S.
    GeneralGradHead part(Index start, Index n, T* S) const {
        GeneralGradHead out = *this;
        out.in.N = n, out.in.S = S;
        out.in.q += start * in.dk, out.in.k += start * in.dk, out.in.v += start * in.dv;
        if (in.a) out.in.a += start * in.gates, out.da += start * in.gates;
        if (in.u)
            out.in.u += start * in.dk, out.in.w += start * in.dk, out.du += start * in.dk, out.dw += start * in.dk;
        out.dO += start * in.dv, out.dq += start * in.dk, out.dk += start * in.dk, out.dv += start * in.dv;
        return out;
    }
};

// With y_t = S_{t-1}ᵀ w_t, and R on its way back, first dS_N:
//
//   R += scale · Σ q_t do_tᵀ                          over the queries that share the state
//   dq_t = scale · S_t do_t
//   dk_t = R v_t,  dv_t = Rᵀ k_t
//   du_t = -R y_t,  dy = -Rᵀ u_t,  dw_t = S_{t-1} dy
//   da_t = <R, S_{t-1}>                               a row each, or all of them summed
//   R = diag(a_t) R + w_t dyᵀ
//
// No factor is divided by, so da is exact where a is 0. O(N·dk·dv) time and, for the states, (N + 1)·dk·dv memory.
template <class T>
class GeneralRecurrent {
public:
    explicit GeneralRecurrent(const GeneralGradHead<T>& d)
        : d_(d),
          h_(d.in),
          states_((h_.N + 1) * h_.dk, h_.dv),
          Y_(h_.u ? h_.N : 0, h_.dv),
          row_(1, h_.dv),
          R_(d.dState()) {}

    void run() {
        state(0) = h_.state();
        for (Index t = 0; t < h_.N; ++t) forward(t);
        for (Index t = h_.N - 1; t >= 0; --t) backward(t);
    }

private:
    // Before token t.
    auto state(Index t) { return states_.middleRows(t * h_.dk, h_.dk); }

    void forward(Index t) {
        interrupt::check();
        auto S = state(t + 1);
        S = state(t);
        gated::scale_rows(h_, t, S);
        if (h_.u) {
            auto y = Y_.row(t);
            y.setConstant(T(0));
            add_product(y, h_.W().row(t), state(t));
            row_ = -y;
            add_product(S, h_.U().row(t).transpose(), row_);
        }
        add_product(S, h_.K().row(t).transpose(), h_.V().row(t));
    }

    // From R after token t to R before it, and the gradients of the token.
    void backward(Index t) {
        interrupt::check();
        for (Index i = 0; i < h_.group; ++i) {
            row_ = d_.dOut(i).row(t) * h_.scale;
            set(d_.dQ(i).row(t), row_, state(t + 1).transpose());
            add_product(R_, h_.Q(i).row(t).transpose(), row_);
        }
        set(d_.dK().row(t), h_.V().row(t), R_.transpose());
        set(d_.dV().row(t), h_.K().row(t), R_);
        if (h_.u) {
            row_ = -Y_.row(t);
            set(d_.dU().row(t), row_, R_.transpose());
            set(row_, h_.U().row(t), R_);
            row_ = -row_;  // dy
            set(d_.dW().row(t), row_, state(t).transpose());
        }
        through_factors(t);
        if (h_.u) add_product(R_, h_.W().row(t).transpose(), row_);
    }

    template <class Out, class X, class Y>
    static void set(Out&& out, const X& x, const Y& y) {
        out.setConstant(T(0));
        add_product(out, x, y);
    }

    void through_factors(Index t) {
        if (h_.gates == 0) return;
        const auto before = state(t);
        if (h_.gates == 1) {
            d_.da[t] = R_.cwiseProduct(before).sum();
        } else {
            for (Index c = 0; c < h_.gates; ++c) d_.da[t * h_.gates + c] = R_.row(c).dot(before.row(c));
        }
        gated::scale_rows(h_, t, R_);
    }

    const GeneralGradHead<T>& d_;
    const gated::GeneralHead<T>& h_;
    Scratch<T> states_, Y_, row_;  // S and y of every token; one row of values
    View<T> R_;
};

template <class T>
void recurrent(const GeneralGradHead<T>& d) {
    GeneralRecurrent<T>(d).run();
}

}  // namespace causeway::gradient
