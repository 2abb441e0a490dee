// The exact gradients of linear attention with gates and delta rules: the public function, where everything is checked.
#pragma once

#include <functional>
#include <optional>

#include "core/gated/linear_attention.hpp"
#include "core/gradient/problem.hpp"

namespace causeway {

struct LinearGradient {
    Tensor dq, dk, dv;  // shapes and type of q, k, v
    std::optional<Tensor>
        dlog_decay;               // where the update has it, shape and type of log_decay: with respect to g, not e^g
    std::optional<Tensor> dbeta;  // where the update has it, shape and type of beta
    Tensor dstate;                // with respect to the state before the first token (zeros if none was given),
                                  // [b, h, d_k, d_v]; Float32, for Float64 inputs Float64
    // Where the options were given, their shapes and types; dlog_decay is then with respect to the projection.
    std::optional<Tensor> dA_log{}, ddt_bias{}, dnorm_weight{}, dnorm_gate{};
};

// The gradient of <O, dO> + <final state, dstate> for (O, final state) = linear_attention(q, k, v, options): what
// arrives at the inputs when dO, of the shape of O and the type of q, and dstate, of the shape of the final state,
// arrive at the outputs; no dstate: zeros. A head of q or k that several states share, and of log_decay or beta that
// serves all, has the sum over them as its gradient, made from one of each: then dq and dk take that much more memory.
// With a norm the outputs before it are computed once more. Packed sequences have the bits of calls with each alone.
// Float16 and BFloat16 are computed in Float32. options.mode chooses the form: "recurrent" is the definition
// (core/gradient/recurrent.hpp: O(N·d_k·d_v) time and memory), "chunkwise" stores a state for each chunk
// (core/gradient/chunkwise.hpp: O(N·(d_k·d_v + chunk·(d_k + d_v))) time, N/chunk·d_k·d_v memory; where heads are fewer
// than threads twice that and O(N·(chunk + d_v)), core/gradient/chunks_at_once.hpp), "parallel" is one chunk. Throws
// Error naming the argument, OutOfMemory, Interrupted, Timeout.
LinearGradient linear_attention_grad(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                     const LinearOptions& = {}, const std::optional<Tensor>& dstate = {});

namespace gradient {

// Who computes all heads of a checked problem: by default the form that the call names.
struct Runner {
    std::function<void(const GradProblem<float>&)> f32;
    std::function<void(const GradProblem<double>&)> f64;
};

// What is checked of a gradient beside its call. Throws Error.
void check_linear_grad(const gated::Sizes&, const Tensor& v, const Tensor& dO, const LinearOptions&,
                       const std::optional<Tensor>& dstate);

// linear_attention_grad, but for who computes it.
LinearGradient linear_attention_grad_by(const Runner&, const Tensor& q, const Tensor& k, const Tensor& v,
                                        const Tensor& dO, const LinearOptions&, const std::optional<Tensor>& dstate);

}  // namespace gradient

}  // namespace causeway
