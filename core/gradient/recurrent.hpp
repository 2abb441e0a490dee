// The definition: the recurrence of core/gated/problem.hpp differentiated token by token, last token first.
#pragma once

#include "core/gradient/problem.hpp"
#include "core/kit/product.hpp"

namespace causeway::gradient {

// With a_t = e^{g_t}, S' = a_t ⊙ S_{t-1}, x = v_t - S'ᵀ k_t, u = β_t x, and R on its way back, first dS_N (claims F10):
//
//   R += scale · Σ q_t do_tᵀ                          over the queries that share the state
//   dq_t = scale · S_t do_t
//   du = Rᵀ k_t,  dv_t = β_t du,  dβ_t = du · x
//   dk_t = R u - β_t S' du,  dS' = R - β_t k_t duᵀ    without the delta rule u = v_t, dv_t = du, dk_t = R v_t, dS' = R
//   dg_t = <dS', S'>                                  a channel each, or all of them summed: 0 where a_t = 0
//   R = a_t ⊙ dS'
//
// O(N·dk·dv) time and, for the states, N·dk·dv memory: the oracle of the gradients.
template <class T>
class Recurrent {
public:
    explicit Recurrent(const GradHead<T>& d)
        : d_(d),
          h_(d.in),
          decayed_(h_.N * h_.dk, h_.dv),
          S_(h_.dk, h_.dv),
          X_(h_.beta ? h_.N : 0, h_.dv),
          u_(1, h_.dv),
          du_(1, h_.dv),
          back_(1, h_.dk),
          R_(d.dState()) {}

    void run() {
        S_ = h_.state();
        for (Index t = 0; t < h_.N; ++t) forward(t);
        for (Index t = h_.N - 1; t >= 0; --t) backward(t);
    }

private:
    T gate(Index t, Index c) const {
        using std::exp;
        return h_.gates == 0 ? T(1) : T(exp(h_.g[t * h_.gates + (h_.gates == 1 ? 0 : c)]));
    }

    // S' of token t.
    auto decayed(Index t) { return decayed_.middleRows(t * h_.dk, h_.dk); }

    // u_t, from x_t.
    void set_u(Index t) {
        u_ = h_.V().row(t);
        for (Index j = 0; h_.beta && j < h_.dv; ++j) u_(0, j) = h_.beta[t] * X_(t, j);
    }

    // The forward pass at token t: S', x and S_t.
    void forward(Index t) {
        interrupt::check();
        for (Index c = 0; h_.gates > 0 && c < h_.dk; ++c) S_.row(c) *= gate(t, c);
        decayed(t) = S_;
        if (h_.beta) {
            auto x = X_.row(t);
            du_.setConstant(T(0));
            add_product(du_, h_.K().row(t), S_);
            x = h_.V().row(t) - du_;
        }
        set_u(t);
        add_product(S_, h_.K().row(t).transpose(), u_);
    }

    // From R after token t to R before it, and the gradients of the token.
    void backward(Index t) {
        interrupt::check();
        const auto k = h_.K().row(t);
        set_u(t);
        S_ = decayed(t);
        add_product(S_, k.transpose(), u_);
        through_outputs(t);
        auto dk = d_.dK().row(t);
        dk.setConstant(T(0));
        add_product(dk, u_, R_.transpose());
        du_.setConstant(T(0));
        add_product(du_, k, R_);
        if (h_.beta) through_delta_rule(t);
        d_.dV().row(t) = du_;
        through_gates(t);
    }

    void through_outputs(Index t) {
        for (Index i = 0; i < h_.group; ++i) {
            du_ = d_.dOut(i).row(t) * h_.scale;
            auto dq = d_.dQ(i).row(t);
            dq.setConstant(T(0));
            add_product(dq, du_, S_.transpose());
            add_product(R_, h_.Q(i).row(t).transpose(), du_);
        }
    }

    void through_delta_rule(Index t) {
        T sum(0);
        for (Index j = 0; j < h_.dv; ++j) sum += du_(0, j) * X_(t, j);
        d_.dbeta[t] = sum;
        du_ *= h_.beta[t];
        back_.setConstant(T(0));
        add_product(back_, du_, decayed(t).transpose());
        d_.dK().row(t) -= back_;
        back_ = -h_.K().row(t);
        add_product(R_, back_.transpose(), du_);  // R is dS' from here on
    }

    void through_gates(Index t) {
        const auto before = decayed(t);
        for (Index c = 0; c < h_.gates; ++c) d_.dG()(t, c) = T(0);
        for (Index c = 0; h_.gates > 0 && c < h_.dk; ++c) {
            T sum(0);
            for (Index j = 0; j < h_.dv; ++j) sum += R_(c, j) * before(c, j);
            d_.dG()(t, h_.gates == 1 ? 0 : c) += sum;
            R_.row(c) *= gate(t, c);
        }
    }

    const GradHead<T>& d_;
    const gated::Head<T>& h_;
    Scratch<T> decayed_, S_, X_, u_, du_, back_;  // S' and x of every token; of one: S, u, du
    View<T> R_;
};

template <class T>
void recurrent(const GradHead<T>& d) {
    Recurrent<T>(d).run();
}

}  // namespace causeway::gradient
