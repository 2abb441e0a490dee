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
void recurrent(const GradHead<T>& d) {
    using std::exp;
    const gated::Head<T>& h = d.in;
    const Index rows = h.dk;
    Scratch<T> decayed(h.N * rows, h.dv), S(rows, h.dv), X(h.beta ? h.N : 0, h.dv), u(1, h.dv), du(1, h.dv),
        back(1, rows);
    const auto gate = [&](Index t, Index c) {
        return h.gates == 0 ? T(1) : T(exp(h.g[t * h.gates + (h.gates == 1 ? 0 : c)]));
    };
    const auto write = [&](Index t) {  // u_t
        u = h.V().row(t);
        for (Index j = 0; h.beta && j < h.dv; ++j) u(0, j) = h.beta[t] * X(t, j);
    };

    S = h.state();
    for (Index t = 0; t < h.N; ++t) {  // the forward pass: S' and x of every token
        interrupt::check();
        for (Index c = 0; h.gates > 0 && c < rows; ++c) S.row(c) *= gate(t, c);
        decayed.middleRows(t * rows, rows) = S;
        if (h.beta) {
            auto x = X.row(t);
            du.setConstant(T(0));
            add_product(du, h.K().row(t), S);
            x = h.V().row(t) - du;
        }
        write(t);
        add_product(S, h.K().row(t).transpose(), u);
    }

    auto R = d.dState();
    for (Index t = h.N - 1; t >= 0; --t) {
        interrupt::check();
        const auto k = h.K().row(t);
        const auto before = decayed.middleRows(t * rows, rows);  // S'
        write(t);
        S = before;
        add_product(S, k.transpose(), u);
        for (Index i = 0; i < h.group; ++i) {
            du = d.dOut(i).row(t) * h.scale;
            auto dq = d.dQ(i).row(t);
            dq.setConstant(T(0));
            add_product(dq, du, S.transpose());
            add_product(R, h.Q(i).row(t).transpose(), du);
        }
        auto dk = d.dK().row(t);
        dk.setConstant(T(0));
        add_product(dk, u, R.transpose());
        du.setConstant(T(0));
        add_product(du, k, R);
        if (h.beta) {
            T sum(0);
            for (Index j = 0; j < h.dv; ++j) sum += du(0, j) * X(t, j);
            d.dbeta[t] = sum;
            du *= h.beta[t];
            back.setConstant(T(0));
            add_product(back, du, before.transpose());
            dk -= back;
            back = -k;
            add_product(R, back.transpose(), du);  // R is dS' from here on
        }
        d.dV().row(t) = du;
        for (Index c = 0; c < h.gates; ++c) d.dG()(t, c) = T(0);
        for (Index c = 0; h.gates > 0 && c < rows; ++c) {
            T sum(0);
            for (Index j = 0; j < h.dv; ++j) sum += R(c, j) * before(c, j);
            d.dG()(t, h.gates == 1 ? 0 : c) += sum;
            R.row(c) *= gate(t, c);
        }
    }
}

}  // namespace causeway::gradient
