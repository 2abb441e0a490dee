// MiniMax-01's layers: lightning attention with a fixed decay a head, its q, k and v through SiLU, its output normed
// and gated by a sigmoid, and in some layers softmax attention; a residual is what the norm made of it. Mixtures of
// more than one expert are not read.
#include <cmath>

#include "core/base/text.hpp"
#include "core/model/blocks/decay.hpp"
#include "core/model/layouts/common.hpp"

namespace causeway::model {
namespace {

struct Sizes : AttentionSizes {
    Index inner, layers;
    double eps;
};

Sizes sizes_of(const Reader& r) {
    return {attention_sizes(r), r.size({"intermediate_size", ""}), r.size({"num_hidden_layers", ""}),
            norm_eps(r, {"rms_norm_eps", ""}, 1e-5)};
}

// γ = e^(−2^(−8 h/heads) (1 − layer/(layers − 1 + 1e-5) + 1e-5)), h from 1.
std::vector<double> decays(const Sizes& s, Index layer) {
    std::vector<double> out;
    const double factor = 1 - static_cast<double>(layer) / (static_cast<double>(s.layers - 1) + 1e-5) + 1e-5;
    for (Index h = 1; h <= s.heads; ++h)
        out.push_back(std::exp(-std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(s.heads)) * factor));
    return out;
}

std::unique_ptr<Mixer> lightning(Reader& r, const Sizes& s, Index layer, const std::string& at) {
    const Index wide = s.heads * s.head;
    DecayParts parts;
    parts.heads = s.heads, parts.width = parts.value_width = s.head, parts.step = parts.value_step = 3 * s.head;
    parts.inputs.push_back(linear(r, at + "qkv_proj", 3 * wide, s.width));
    parts.inputs.push_back(linear(r, at + "output_gate", wide, s.width));
    parts.k = s.head, parts.v = 2 * s.head, parts.gate = 3 * wide;
    parts.activation = parts.value_activation = Activation::silu, parts.gate_activation = Activation::sigmoid;
    parts.norm = rms_norm(r, at + "norm", wide, 1e-6);
    parts.out = linear(r, at + "out_proj", s.width, wide);
    parts.decay = decays(s, layer);
    return decay_mixer(std::move(parts));
}

// Softmax attention without any of what others add to it.
std::unique_ptr<Mixer> full(Reader& r, const Sizes& s, const std::shared_ptr<const Rotary>& rotary,
                            const std::string& at) {
    SoftmaxParts parts = softmax_parts(r, at, s);
    parts.rotary = rotary;
    return softmax_mixer(std::move(parts));
}

Residual residual(const Reader& r, const std::string& name) {
    return {r.number({name + "_alpha_factor", ""}, 1), r.number({name + "_beta_factor", ""}, 1), true};
}

Network build_minimax(Reader& r) {
    const Sizes s = sizes_of(r);
    check_silu(r, "hidden_act");
    if (const Index experts = r.size({"num_local_experts", ""}, 1); experts > 1)
        r.refuse("num_local_experts: ", experts, ", expected 1: mixtures of experts are not read");
    Network out;
    out.about.width = s.width;
    out.about.context = r.tokens({"max_position_embeddings", ""});
    out.longest = r.tokens({"sliding_window", ""});
    out.embedding = r.matrix("model.embed_tokens.weight", s.width);
    const auto rotary = rotary_positions(r, s.head, s.head, false);
    for (Index i = 0; i < s.layers; ++i) {
        const std::string at = "model.layers." + std::to_string(i) + ".", expert = at + "block_sparse_moe.experts.0.";
        const bool is_linear = !is_full_attention(r, i).value_or(i % 2 == 0);
        Layer layer;
        layer.mixer_norm = rms_norm(r, at + "input_layernorm", s.width, s.eps);
        layer.mixer = is_linear ? lightning(r, s, i, at + "self_attn.") : full(r, s, rotary, at + "self_attn.");
        layer.mixed = residual(r, is_linear ? "linear_attn" : "full_attn");
        layer.mlp_norm = rms_norm(r, at + "post_attention_layernorm", s.width, s.eps);
        layer.mlp = silu_mlp(r, expert + "w1", expert + "w3", expert + "w2", s.width, s.inner);
        layer.thought = residual(r, "mlp");
        out.layers.push_back(std::move(layer));
    }
    out.norm = rms_norm(r, "model.norm", s.width, s.eps);
    out.head = head_of(r, "lm_head.weight", out.embedding);
    return out;
}

}  // namespace

Layout minimax_layout() {
    return {"minimax",
            "MiniMax-01 with one expert: lightning attention with softmax attention in some layers",
            {},
            {"minimax"},
            build_minimax};
}

}  // namespace causeway::model
