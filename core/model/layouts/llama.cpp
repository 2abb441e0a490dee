// Llama, and what is built like it: Mistral, SmolLM, Qwen2, Qwen3. RMS norms before attention and before a gated MLP
// with SiLU, rotary positions, grouped queries, as a rule without biases (Touvron et al. 2023).
#include "core/model/layouts/common.hpp"

namespace causeway::model {
namespace {

struct Sizes : AttentionSizes {
    Index inner;
    double eps;
};

Sizes sizes_of(const Reader& r) {
    return {attention_sizes(r), r.size({"intermediate_size", "feed_forward_length"}),
            norm_eps(r, {"rms_norm_eps", "attention.layer_norm_rms_epsilon"}, 1e-6)};
}

// What stands between a layer and its tensors: model.layers.0.self_attn.q_proj.weight or blk.0.attn_q.weight.
struct Names {
    const char *norm, *q, *k, *v, *out, *q_norm, *k_norm, *mlp_norm, *gate, *up, *down;
};
constexpr Names folder_names{"input_layernorm",  "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                             "self_attn.o_proj", "self_attn.q_norm", "self_attn.k_norm", "post_attention_layernorm",
                             "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
constexpr Names gguf_names{"attn_norm",   "attn_q",   "attn_k",   "attn_v", "attn_output", "attn_q_norm",
                           "attn_k_norm", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"};

Layer layer(Reader& r, const Sizes& s, const std::shared_ptr<const Rotary>& rotary, Index i) {
    const Names& n = r.gguf() ? gguf_names : folder_names;
    const std::string at = (r.gguf() ? "blk." : "model.layers.") + std::to_string(i) + ".";
    SoftmaxParts parts;
    parts.heads = s.heads, parts.key_heads = s.key_heads, parts.width = s.head;
    parts.q = linear(r, at + n.q, s.heads * s.head, s.width);
    parts.k = linear(r, at + n.k, s.key_heads * s.head, s.width);
    parts.v = linear(r, at + n.v, s.key_heads * s.head, s.width);
    parts.out = linear(r, at + n.out, s.width, s.heads * s.head);
    if (r.has(at + n.q_norm + ".weight")) {
        parts.q_norm = rms_norm(r, at + n.q_norm, s.head, s.eps);
        parts.k_norm = rms_norm(r, at + n.k_norm, s.head, s.eps);
    }
    parts.rotary = rotary;
    Layer out;
    out.mixer_norm = rms_norm(r, at + n.norm, s.width, s.eps);
    out.mixer = softmax_mixer(std::move(parts));
    out.mlp_norm = rms_norm(r, at + n.mlp_norm, s.width, s.eps);
    out.mlp = silu_mlp(r, at + n.gate, at + n.up, at + n.down, s.width, s.inner);
    return out;
}

// The tokens that attention reaches back: a window that slides is not built, a text within it needs none.
Index window(const Reader& r, Index context) {
    const Key key{"sliding_window", "attention.sliding_window"};
    if (!r.flag({"use_sliding_window", ""}, true)) return 0;
    const Index n = r.tokens(key);
    return n > 0 && (context == 0 || n < context) ? n : 0;
}

Network build_llama(Reader& r) {
    const Sizes s = sizes_of(r);
    check_silu(r, "hidden_act");
    Network out;
    out.about.width = s.width;
    out.about.context = r.tokens({"max_position_embeddings", "context_length"});
    out.longest = window(r, out.about.context);
    const std::string embedding = r.gguf() ? "token_embd.weight" : "model.embed_tokens.weight",
                      head = r.gguf() ? "output.weight" : "lm_head.weight";
    out.embedding = r.matrix(embedding, s.width);
    const Index layers = r.size({"num_hidden_layers", "block_count"});
    const Index turned = r.size({"", "rope.dimension_count"}, s.head);
    const auto rotary = rotary_positions(r, s.head, turned, r.gguf() && r.architecture() == "llama");
    for (Index i = 0; i < layers; ++i) out.layers.push_back(layer(r, s, rotary, i));
    out.norm = rms_norm(r, r.gguf() ? "output_norm" : "model.norm", s.width, s.eps);
    out.head = head_of(r, head, out.embedding);
    return out;
}

}  // namespace

Layout llama_layout() {
    return {"llama",
            "Llama, Mistral, SmolLM, Qwen2 and Qwen3: softmax attention with rotary positions, gated MLP",
            {"llama", "qwen2", "qwen3"},
            {"llama", "mistral", "qwen2", "qwen3"},
            build_llama};
}

}  // namespace causeway::model
