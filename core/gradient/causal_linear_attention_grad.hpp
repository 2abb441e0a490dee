// The exact gradients of causal linear attention: the public function, where everything is checked.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/exact/causal_linear_attention.hpp"
#include "core/gradient/problem.hpp"

namespace causeway {

struct CausalGradient {
    Tensor dB, dC, dV;           // shapes and type of B, C, V
    std::vector<double> ddecay;  // one for each γ given; one for all heads has the sum over them; over batches always
    // Where a state was given: with respect to it, its shape, in Float32 (Float64 for Float64 inputs); of a pool the
    // slots that no sequence has are zeros.
    std::optional<Tensor> dstate;
};

// The gradient of <O, dO> for O = causal_linear_attention(B, C, V, options), with respect to everything that O depends
// on: O is the same whatever the method, so `method` is only checked, and `block` is the length of the chunks (64 if
// none). dO has the shape and type of O. With normalize the quotient is differentiated (claims G8): for N' = (B Cᵀ ⊙ M)
// [V, 1], D its last column, Y = N / D and G = dO
//
//   dN' = [diag(1/D) G, -rowsum(G ⊙ Y) / D]
//
// and N' is computed again. A constant decay is a gate with the same logarithm for every token, so
// dγ = Σ_s d(ln a_s) / γ, summed in Float64. Float16 and BFloat16 are computed in Float32.
// O(N·(r·d + block·(r + d))) time; memory N/block·r·d a head, with normalize 3·N·(d + 1) for each head in work.
// Throws Error naming the argument, OutOfMemory, Interrupted, Timeout.
CausalGradient causal_linear_attention_grad(const Tensor& B, const Tensor& C, const Tensor& V, const Tensor& dO,
                                            const CausalOptions& = {});

namespace gradient {

// Who computes all heads of a checked problem whose gates are the decay; with normalize the d columns of dO and dV are
// those of V, while the states have the d + 1 of V' = [V, 1].
struct CausalRunner {
    std::function<void(const GradProblem<float>&, bool normalize)> f32;
    std::function<void(const GradProblem<double>&, bool normalize)> f64;
};

// What causal_linear_attention_grad checks before it computes. Throws Error.
exact::Dimensions check_causal_grad(const Tensor& B, const Tensor& C, const Tensor& V, const Tensor& dO,
                                    const CausalOptions&);

// All heads as causal_linear_attention_grad computes them.
template <class T>
void run_causal_grad(const GradProblem<T>& p, bool normalize);

// causal_linear_attention_grad of one sequence an entry of the batch, but for who computes it.
CausalGradient causal_linear_attention_grad_by(const CausalRunner&, const Tensor& B, const Tensor& C, const Tensor& V,
                                               const Tensor& dO, const CausalOptions&);

}  // namespace gradient
}  // namespace causeway
