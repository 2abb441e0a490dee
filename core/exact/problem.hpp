// What every method of causal linear attention computes.
//
//   P = (B Cᵀ ⊙ M) V,   M[i,j] = γ^(i-j) for i >= j, else 0         (leet eq. 4; fleet eq. 5)
//   normalised: O_i = P_i / D_i,   D = (B Cᵀ ⊙ M) 1
#pragma once

#include "core/kit/views.hpp"

namespace causeway::exact {

using namespace kit;  // views, products and panels by their plain names

// One head: B, C [N, r], V, O [N, d], row-major. S [r, d], where given, is the state Σ_j γ^(N-j) c_jᵀ v_j: on entry
// that of the tokens before these, on return that after them; null: starts at zero and is dropped.
template <class T>
struct Head {
    ConstView<T> B, C, V;
    View<T> O;
    double gamma = 1;
    T* S = nullptr;

    Index N() const { return B.rows(); }
    Index r() const { return B.cols(); }
    Index d() const { return V.cols(); }
    bool decays() const { return gamma != 1; }
};

// All heads of a call, checked: contiguous [batch·heads, N, width], where consecutive heads may share one of B, of C or
// of V (grouped queries and values): the product has the heads of O. O is not read.
template <class T>
struct Problem {
    Index batch = 1, heads = 1, N = 0, r = 0, d = 0;
    Index shared_B = 1, shared_C = 1, shared_V = 1;  // heads that share one
    const T* B = nullptr;
    const T* C = nullptr;
    const T* V = nullptr;
    T* O = nullptr;
    const double* gamma = nullptr;  // one per head; null: 1
    bool normalize = false;
    Index block = 0;     // block, tile or base-case length; > 0 where the method has one
    T* state = nullptr;  // [batch·heads, r, state_width()]; in and out; null: none

    Index all_heads() const { return batch * heads; }
    double decay_of(Index head) const { return gamma ? gamma[head % heads] : 1.0; }
    // With normalize the state has one more column: that of V' = [V, 1].
    Index state_width() const { return d + (normalize ? 1 : 0); }

    const T* B_of(Index h) const { return B + h / shared_B * N * r; }
    const T* C_of(Index h) const { return C + h / shared_C * N * r; }
    const T* V_of(Index h) const { return V + h / shared_V * N * d; }
    T* state_of(Index h) const { return state ? state + h * r * state_width() : nullptr; }

    Head<T> head(Index h) const {
        return {{B_of(h), N, r},       {C_of(h), N, r}, {V_of(h), N, d},
                {O + h * N * d, N, d}, decay_of(h),     state ? state + h * r * d : nullptr};
    }
};

}  // namespace causeway::exact
