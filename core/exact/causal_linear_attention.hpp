// Causal linear attention: the public function, where everything is checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/exact/registry.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway {

struct CausalOptions {
    std::string method = "auto";  // a name of exact::methods(); "auto": the fastest one measured on this machine
    std::vector<double> decay;    // γ in (0, 1]: none (1), one for all heads, or one per head
    bool normalize = false;       // O_i = P_i / Σ_j (B Cᵀ ⊙ M)_ij
    std::optional<Index> block;   // block, tile or base-case length >= 1, for methods that have one
    double scale = 1;             // factor on B Cᵀ
    std::optional<Tensor> state;  // state to start from, [batch, heads, r, d], with normalize [batch, heads, r, d + 1]
    bool return_state = false;    // the state after the last token is wanted
};

struct CausalResult {
    Tensor O;      // shape and type of V
    Tensor state;  // Float32 (Float64 for Float64 inputs); only with return_state
};

// O = (B Cᵀ ⊙ M) V with M[i,j] = γ^(i-j) for i >= j, else 0 (fleet eq. 5, leet eq. 4), optionally divided by the row
// sums of the masked matrix. B, C [b, h, N, r], V [b, h, N, d], or without b, or without b and h; one element type.
// Float16 and BFloat16 inputs are computed in Float32 and returned in their type. The state is Σ_j γ^(N-j) c_jᵀ v_j
// (with normalize the last column is that sum for v = 1): two halves with the state carried over equal one call. Throws
// Error naming the argument, OutOfMemory, Interrupted, Timeout. Complexity: that of the method, see exact::Method.
CausalResult causal_linear_attention(const Tensor& B, const Tensor& C, const Tensor& V, const CausalOptions& = {});

// The same by the method's definition in Float64, with every operation counted: `count` grows by what was really
// executed. One multiply and one add per term of a product; copies and the powers of γ, made once per head, do not
// count.
CausalResult causal_linear_attention_counted(const Tensor& B, const Tensor& C, const Tensor& V, const CausalOptions&,
                                             OperationCount& count);

namespace exact {

// The parts of the check that other callers of methods need too.
struct Dimensions {
    Index batch, heads, N, r, d;
    DType dtype;
};
// Throws Error when the three do not belong together.
Dimensions check_inputs(const Tensor& B, const Tensor& C, const Tensor& V);
// Throws Error for a γ outside (0, 1] or a number of them that is neither 0, 1 nor `heads`; returns 0 or `heads` of
// them, 0 when all are 1.
std::vector<double> check_decay(const std::vector<double>& decay, Index heads);

}  // namespace exact
}  // namespace causeway
