// The general rule of the family: a state whose rows are scaled, from which one outer product takes and to which
// another adds,
//
//   y_t = S_{t-1}ᵀ w_t                                        what the state holds under w
//   S_t = diag(a_t) S_{t-1} - u_t y_tᵀ + k_t v_tᵀ             (diag(a) - u wᵀ) S + k vᵀ
//   o_t = scale · S_tᵀ q_t
//
// Every rule of core/gated/problem.hpp is one of it: the gated delta rule with u = β k, w = e^g ⊙ k and β k for k. Here
// a is given as it is, not as a logarithm: 0, negative numbers and numbers above 1 are allowed.
#pragma once

#include "core/gated/problem.hpp"

namespace causeway::gated {

// One head; N, dk, dv, group, step, gates, q, k, v, O, S and scale mean what they mean there, g and beta are null.
template <class T>
struct GeneralHead : Head<T> {
    const T* a = nullptr;  // [N, gates]; null: 1
    const T* u = nullptr;  // [N, dk]; null: nothing is taken out
    const T* w = nullptr;  // [N, dk]

    ConstView<T> A() const { return {a, this->N, this->gates}; }
    ConstView<T> U() const { return {u, this->N, this->dk}; }
    ConstView<T> W() const { return {w, this->N, this->dk}; }
};

// One of a, u and w: [batch, heads / shared, N, width], so that `shared` consecutive states have a head of it.
template <class T>
struct PerToken {
    const T* values = nullptr;
    Index shared = 1, width = 1;
};

template <class T>
struct GeneralProblem : Problem<T> {
    PerToken<T> a, u, w;

    GeneralHead<T> head(Index i) const {
        const Sequence s = this->sequence(i / this->heads);
        GeneralHead<T> out;
        static_cast<Head<T>&>(out) = Problem<T>::head(i);
        const auto rows = [&](const PerToken<T>& x) {
            if (!x.values) return x.values;
            const Index head = s.batch * (this->heads / x.shared) + i % this->heads / x.shared;
            return x.values + (head * this->N + s.first) * x.width;
        };
        out.a = rows(a), out.u = rows(u), out.w = rows(w);
        return out;
    }
};

}  // namespace causeway::gated
