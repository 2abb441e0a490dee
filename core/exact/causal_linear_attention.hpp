// Causal linear attention: the public function, where everything is checked.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/calls/causal_linear_attention.hpp"
#include "core/exact/registry.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway {

struct CausalResult {
    Tensor O;      // shape and type of V, with the heads of B where those are more
    Tensor state;  // Float32 (Float64 for Float64 inputs), in place what was given; only with return_state or inplace
    // With checkpoint_every = c [checkpoints, h, r, d]: of each sequence in turn the states after c, 2c, ... tokens.
    std::optional<Tensor> checkpoints = {};
};

// O = (B Cᵀ ⊙ M) V with M[i,j] = γ^(i-j) for i >= j, else 0 (fleet eq. 5, leet eq. 4), optionally divided by the row
// sums of the masked matrix. B, C [b, h, N, r], V [b, h, N, d], or without b, or without b and h; one element type.
// V may have a multiple of the heads of C (grouped values), and B a multiple of those of V (grouped queries) or a
// divisor: consecutive heads share one, nothing is repeated in memory but states while they are computed. Decay and
// states are those of the heads of V.
// Float16 and BFloat16 inputs are computed in Float32 and returned in their type. The state is Σ_j γ^(N-j) c_jᵀ v_j
// (with normalize the last column is that sum for v = 1): two halves with the state carried over equal one call.
//
// cu_seqlens packs n sequences one after the other into b = 1: n + 1 offsets from 0 to N. Each has a state of its own,
// [n, h, r, d], and the bits of a call with that sequence alone, which "auto" chooses the method for. A state may be
// stored in Float16 or BFloat16. state_indices makes it a pool [slots, h, r, d], where each sequence (or batch entry)
// starts from the slot that its index names, counted from 0; inplace writes the states after the last tokens to where
// those before the first came from, when all is computed.
//
// checkpoint_every = c computes a sequence c tokens at a time and keeps the states between them: a call that goes on
// from one of them, with the same c and method, has the bits of this one. deterministic = "prefix" asks for outputs
// that no later token, no other sequence and no other length changes, and refuses a method that cannot promise them.
// With either option "auto" is lightning-attention-2, whatever a machine measures.
//
// Throws Error naming the argument, OutOfMemory, Interrupted, Timeout. Complexity: that of the method, see
// exact::Method.
CausalResult causal_linear_attention(const Tensor& B, const Tensor& C, const Tensor& V, const CausalOptions& = {});

// The method that this call runs by: for "auto" the one that is the fastest for these inputs, which is measured where
// their class is new (core/exact/choice.hpp). Throws as the call does.
const exact::Method& causal_method(const Tensor& B, const Tensor& C, const Tensor& V, const CausalOptions& = {});

// The same by the method's definition in Float64, with every operation counted: `count` grows by what was really
// executed. One multiply and one add per term of a product; copies and the powers of γ, made once per head, do not
// count.
CausalResult causal_linear_attention_counted(const Tensor& B, const Tensor& C, const Tensor& V, const CausalOptions&,
                                             OperationCount& count);

namespace exact {

// Who computes all heads of a checked problem: by default the method itself.
struct Runner {
    std::function<void(const Method&, const Problem<float>&)> f32;
    std::function<void(const Method&, const Problem<double>&)> f64;
};

// causal_linear_attention of one sequence an entry of the batch, but for who computes it.
CausalResult causal_linear_attention_by(const Runner&, const Tensor& B, const Tensor& C, const Tensor& V,
                                        const CausalOptions&);

// The parts of the check that other callers of methods need too.
struct Dimensions {
    Index batch, heads, N, r, d;  // heads of the output
    DType dtype;
    Index shared_B = 1, shared_C = 1, shared_V = 1;  // consecutive heads of the output that share one of them

    Index state_heads() const { return heads / shared_V; }
};
// Throws Error when the three do not belong together: all have the same heads.
Dimensions check_inputs(const Tensor& B, const Tensor& C, const Tensor& V);
// The same where heads may be grouped.
Dimensions check_grouped_inputs(const Tensor& B, const Tensor& C, const Tensor& V);
// That of V with the heads of the output.
Shape output_shape(const Tensor& V, const Dimensions&);
// Each head of A [batch, heads, ...] as many times in a row.
Tensor repeat_heads(const Tensor& A, Index times);
// Shape and type of the states to start from, which must be given, and the slots of a pool.
void check_states(const Dimensions&, const CausalOptions&);
// Those of the sequences, in the type of computation; they may share their elements with what was given.
Tensor states_of(const Dimensions&, const CausalOptions&);
// Throws Error for a promise that is none, or one that the method, given by its name or "auto", does not keep.
void check_deterministic(const CausalOptions&);
// Throws Error for a γ outside (0, 1] or a number of them that is neither 0, 1 nor `heads`; returns 0 or `heads` of
// them, 0 when all are 1.
std::vector<double> check_decay(const std::vector<double>& decay, Index heads);
// From those of the heads of V, each of which `shared` consecutive heads of the output share.
std::vector<double> decay_of_outputs(const std::vector<double>& decay, Index shared);

}  // namespace exact
}  // namespace causeway
