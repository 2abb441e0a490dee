// Linear attention by the general rule: the public functions, where everything is checked.
#pragma once

#include "core/calls/general_linear_attention.hpp"
#include "core/gated/general/problem.hpp"
#include "core/gated/linear_attention.hpp"

namespace causeway {

// The rule of core/gated/general/problem.hpp, S ← (diag(a) - u wᵀ) S + k vᵀ, o = scale · Sᵀq. q, k, v, their heads,
// scale, state, cu_seqlens and the result are those of linear_attention. a [b, h, N] or [b, h, N, d_k], without it 1; u
// and w [b, h, N, d_k], both or none; each of the three may have fewer heads, which then serve as many consecutive
// states each. |a| <= 1 and a product of the matrices that stays bounded are what keeps the state finite; nothing else
// is asked of them. O(N·d_k·d_v) time recurrent, O(N·(d_k·d_v + chunk·(d_k + d_v))) chunkwise, O(N²·(d_k + d_v))
// parallel. Throws Error naming the argument, OutOfMemory, Interrupted, Timeout.
LinearResult general_linear_attention(const Tensor& q, const Tensor& k, const Tensor& v, const GeneralOptions& = {});

// The same by the definition of the mode in Float64, with every operation counted: `count` grows by what was executed.
LinearResult general_linear_attention_counted(const Tensor& q, const Tensor& k, const Tensor& v, const GeneralOptions&,
                                              OperationCount& count);

// T tokens, 1 to 16, advancing `state` in place, as linear_attention_step does: shapes, types, pools, the states kept
// after each token, errors and what happens when it is interrupted are as there.
void general_linear_attention_step(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& state, Tensor& O,
                                   const GeneralOptions& = {}, std::vector<Tensor>* states = nullptr);

namespace gated {

// The sizes and types of a call, and how many consecutive states share a head of a, u and w.
struct GeneralSizes : Sizes {
    Index a_shared = 1, u_shared = 1, w_shared = 1;
    bool erases = false;  // u and w are given
};
// Everything that is checked without looking at an element.
GeneralSizes check_general_sizes(const Tensor& q, const Tensor& k, const Tensor& v, const GeneralOptions&);
// The same of what a step has besides: its length, its state and output, and options that it does not take.
void check_general_step(const GeneralSizes&, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& state,
                        const Tensor& O, const GeneralOptions&);

// What the checks make of a call: contiguous tensors in the type of computation.
struct GeneralCall : GeneralSizes {
    Tensor q, k, v, a, u, w, state;  // a, u, w: empty where they are not given; state: a copy or zeros

    // T is the type that `compute` names. O and S are the caller's to set.
    template <class T>
    GeneralProblem<T> problem_of() const {
        GeneralProblem<T> p;
        static_cast<Problem<T>&>(p) = this->template problem<T>();
        p.q = q.data<T>(), p.k = k.data<T>(), p.v = v.data<T>();
        if (gates > 0) p.a = {a.data<T>(), a_shared, gates};
        if (erases) {
            p.u = {u.data<T>(), u_shared, dk};
            p.w = {w.data<T>(), w_shared, dk};
        }
        p.scale = static_cast<T>(scale);
        if (mode->name == "parallel") p.chunk = std::max<Index>(N, 1);
        return p;
    }
};
GeneralCall check_general(const Tensor& q, const Tensor& k, const Tensor& v, const GeneralOptions&);

}  // namespace gated
}  // namespace causeway
