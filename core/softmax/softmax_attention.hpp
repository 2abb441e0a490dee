// Softmax attention: the public function, where everything is checked.
#pragma once

#include <optional>
#include <string>

#include "core/calls/softmax_attention.hpp"
#include "core/measure/counting.hpp"
#include "core/softmax/problem.hpp"
#include "core/softmax/registry.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway {

struct SoftmaxResult {
    Tensor O;  // [b, h_q, N, d_v], the type of q
    Tensor
        lse;  // [b, h_q, N], the log-sum-exp of the scaled scores of every query; Float32, for Float64 inputs Float64
};

// O = softmax(scale q kᵀ) v, as core/softmax/problem.hpp states it. q [b, h_q, N, d], k [b, h, M, d], v [b, h, M, d_v],
// h_q a multiple of h: consecutive heads of q share a head of k and v. Or all without b, or without b and heads. One
// element type; Float16 and BFloat16 are computed in Float32. causal needs N <= M. M = 0: zeros, with a log-sum-exp of
// -Inf. cu_seqlens packs n sequences one after the other into b = 1, in q as in k and v: n + 1 offsets from 0 to N;
// each has the bits of a call with it alone. O(h_q·N·M·(d + d_v)) time, never N·M memory. Throws Error naming the
// argument, OutOfMemory, Interrupted, Timeout.
SoftmaxResult softmax_attention(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxOptions& = {});

// The same by the definition of the method in Float64, with every operation counted: `count` grows by what was
// executed.
SoftmaxResult softmax_attention_counted(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxOptions&,
                                        OperationCount& count);

namespace attention {

// The sizes and types of a call.
struct Sizes {
    const Method* method;
    Index batch, heads, group, N, M, d, dv;
    bool causal;
    DType dtype;    // of q, k, v and the output
    DType compute;  // Float32 or Float64
    Shape output;   // as the caller wrote q, with the width d_v
    Shape rows;     // as the caller wrote q, without the width
    double scale;
};
Sizes check(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxOptions&);

// m + log l of every query, in the shape [b, h_q, N] as the caller wrote q.
Tensor log_sum_exp(const Tensor& m, const Tensor& l);

// T is the type that sizes.compute names, and q, k, v have it. O, m and l are the caller's to set.
template <class T>
Problem<T> problem_of(const Sizes& c, const Tensor& q, const Tensor& k, const Tensor& v) {
    Problem<T> p;
    p.batch = c.batch, p.heads = c.heads, p.group = c.group;
    p.N = c.N, p.M = c.M, p.d = c.d, p.dv = c.dv;
    p.causal = c.causal;
    p.q = q.data<T>(), p.k = k.data<T>(), p.v = v.data<T>();
    p.scale = static_cast<T>(c.scale);
    return p;
}

}  // namespace attention
}  // namespace causeway
