// A small Qwen3-Next of random weights for tests.
#pragma once

#include "core/base/text.hpp"
#include "tests/core/model/random_folder.hpp"

namespace causeway::test {

inline void add_softmax(RandomFolder& f, const std::string& at, Index q_rows, Index k_rows, Index wide) {
    f.matrix(at + "q_proj.weight", q_rows, 24, 2);
    f.matrix(at + "k_proj.weight", k_rows, 24, 2);
    f.matrix(at + "v_proj.weight", k_rows, 24);
    f.matrix(at + "o_proj.weight", 24, wide);
}

// Two gated delta nets and a gated softmax attention between them, of awkward widths and `vocabulary` tokens.
inline RandomFolder qwen3_next_folder(Index vocabulary = 37) {
    RandomFolder f;
    f.config = {
        {"model_type", "qwen3_next"},
        {"hidden_size", 24},
        {"num_hidden_layers", 3},
        {"num_attention_heads", 4},
        {"num_key_value_heads", 2},
        {"head_dim", 8},
        {"intermediate_size", 20},
        {"rms_norm_eps", 1e-6},
        {"full_attention_interval", 2},
        {"num_experts", 0},
        {"linear_num_key_heads", 2},
        {"linear_num_value_heads", 6},
        {"linear_key_head_dim", 5},
        {"linear_value_head_dim", 7},
        {"linear_conv_kernel_dim", 4},
        {"rope_parameters", {{"rope_theta", 1000.0}, {"partial_rotary_factor", 0.5}, {"rope_type", "default"}}}};
    f.matrix("model.embed_tokens.weight", vocabulary, 24, 5);
    f.matrix("lm_head.weight", vocabulary, 24);
    f.vector("model.norm.weight", 24, 0);
    constexpr Index keys = 10, values = 42;
    for (Index i = 0; i < 3; ++i) {
        const std::string at = sentence("model.layers.", i, ".");
        if (i == 1) {
            add_softmax(f, at + "self_attn.", 2 * 4 * 8, 2 * 8, 4 * 8);
            f.vector(at + "self_attn.q_norm.weight", 8, 0);
            f.vector(at + "self_attn.k_norm.weight", 8, 0);
        } else {
            f.matrix(at + "linear_attn.in_proj_qkvz.weight", 2 * keys + 2 * values, 24, 3);
            f.matrix(at + "linear_attn.in_proj_ba.weight", 12, 24, 2);
            f.matrix(at + "linear_attn.out_proj.weight", 24, values);
            f.add(at + "linear_attn.conv1d.weight", {2 * keys + values, 1, 4}, 0, 0.6);
            f.vector(at + "linear_attn.A_log", 6, -1, 0.5);
            f.vector(at + "linear_attn.dt_bias", 6, 0, 0.5);
            f.vector(at + "linear_attn.norm.weight", 7, 1);
        }
        f.vector(at + "input_layernorm.weight", 24, 0);
        f.vector(at + "post_attention_layernorm.weight", 24, 0);
        f.matrix(at + "mlp.gate_proj.weight", 20, 24);
        f.matrix(at + "mlp.up_proj.weight", 20, 24);
        f.matrix(at + "mlp.down_proj.weight", 24, 20);
    }
    return f;
}

}  // namespace causeway::test
