// What several layouts ask a checkpoint for.
#pragma once

#include "core/model/blocks/softmax.hpp"
#include "core/model/layout.hpp"

namespace causeway::model {

// NAME.weight with, where there is one, NAME.bias.
Linear linear(Reader&, const std::string& name, Index rows, Index columns);

// NAME.weight as the weights of a norm by the root mean square, each more by `more`.
Norm rms_norm(Reader&, const std::string& name, Index width, double eps, float more = 0);

// The epsilon of the norms.
double norm_eps(const Reader&, const Key& key, double fallback);

// The rotary positions that rope_theta, rope_scaling and rope_parameters describe (rope.* in GGUF), on `turned` of a
// head's numbers. Throws Error for a scaling that is not known.
std::shared_ptr<const Rotary> rotary_positions(Reader&, Index head, Index turned, bool interleaved);

// Of the model and of its softmax attention: `heads` of q on `key_heads` of k and v, each `head` wide.
struct AttentionSizes {
    Index width, heads, key_heads, head;
};
AttentionSizes attention_sizes(const Reader&);

// AT.q_proj, k_proj, v_proj and o_proj of softmax attention, `gated` with a gate beside each head of q.
SoftmaxParts softmax_parts(Reader&, const std::string& at, const AttentionSizes&, bool gated = false);

// The MLP of GATE, UP and DOWN with SiLU, `inner` wide in its middle.
std::unique_ptr<GatedMlp> silu_mlp(Reader&, const std::string& gate, const std::string& up, const std::string& down,
                                   Index width, Index inner);

// Whether layer i (from 0) of a model that has both kinds has softmax attention, as layer_types says; nothing where it
// is not there.
std::optional<bool> is_full_attention(const Reader&, Index i);

// The matrix NAME, or the embedding where the two are tied.
Linear head_of(Reader&, const std::string& name, const Weight& embedding);

// Throws Error unless the key says SiLU, or nothing.
void check_silu(const Reader&, const char* key);

// Throws Error unless the number of the key divides `whole`, which the message calls by its name.
void check_divides(const Reader&, const Key& key, Index number, Index whole, const char* name);

}  // namespace causeway::model
