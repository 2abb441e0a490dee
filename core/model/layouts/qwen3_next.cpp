// Qwen3-Next: gated delta nets, and in every n-th layer softmax attention with an output gate and rotary positions on a
// part of each head; weights of norms are stored less by one. Mixtures of experts are not read.
#include <cmath>

#include "core/base/text.hpp"
#include "core/model/blocks/gated_delta.hpp"
#include "core/model/layouts/common.hpp"

namespace causeway::model {
namespace {

struct Sizes : AttentionSizes {
    Index inner, layers;
    Index linear_keys, linear_values, linear_width, linear_value_width;  // of gated delta nets: heads and their widths
    Index taps;
    double eps;
};

Sizes sizes_of(const Reader& r) {
    Sizes s{};
    static_cast<AttentionSizes&>(s) = attention_sizes(r);
    s.inner = r.size({"intermediate_size", ""});
    s.layers = r.size({"num_hidden_layers", ""});
    s.linear_keys = r.size({"linear_num_key_heads", ""});
    s.linear_values = r.size({"linear_num_value_heads", ""});
    check_divides(r, {"linear_num_key_heads", ""}, s.linear_keys, s.linear_values, "heads of values");
    s.linear_width = r.size({"linear_key_head_dim", ""});
    s.linear_value_width = r.size({"linear_value_head_dim", ""});
    s.taps = r.size({"linear_conv_kernel_dim", ""}, 4);
    s.eps = norm_eps(r, {"rms_norm_eps", ""}, 1e-6);
    return s;
}

// As layer_types says, or every full_attention_interval-th.
bool is_full(const Reader& r, Index i) {
    const auto said = is_full_attention(r, i);
    return said ? *said : (i + 1) % r.size({"full_attention_interval", ""}, 4) == 0;
}

std::unique_ptr<Mixer> full(Reader& r, const Sizes& s, const std::shared_ptr<const Rotary>& rotary,
                            const std::string& at) {
    SoftmaxParts parts = softmax_parts(r, at, s, true);
    parts.q_norm = rms_norm(r, at + "q_norm", s.head, s.eps, 1);
    parts.k_norm = rms_norm(r, at + "k_norm", s.head, s.eps, 1);
    parts.rotary = rotary;
    return softmax_mixer(std::move(parts));
}

std::unique_ptr<Mixer> delta(Reader& r, const Sizes& s, const std::string& at) {
    const Index keys = s.linear_keys * s.linear_width, values = s.linear_values * s.linear_value_width;
    GatedDeltaParts parts;
    parts.key_heads = s.linear_keys, parts.value_heads = s.linear_values;
    parts.width = s.linear_width, parts.value_width = s.linear_value_width;
    parts.qkvz = linear(r, at + "in_proj_qkvz", 2 * keys + 2 * values, s.width);
    parts.ba = linear(r, at + "in_proj_ba", 2 * s.linear_values, s.width);
    parts.out = linear(r, at + "out_proj", s.width, values);
    parts.convolution = {2 * keys + values, s.taps, r.vector(at + "conv1d.weight", (2 * keys + values) * s.taps)};
    parts.a_log = r.vector(at + "A_log", s.linear_values);
    parts.dt_bias = r.vector(at + "dt_bias", s.linear_values);
    parts.norm = rms_norm(r, at + "norm", s.linear_value_width, s.eps);
    return gated_delta_mixer(std::move(parts));
}

void check_dense(const Reader& r) {
    if (const Index experts = r.size({"num_experts", ""}, 0, 0); experts > 0)
        r.refuse("num_experts: ", experts, ", expected 0: mixtures of experts are not read");
}

Network build_qwen3_next(Reader& r) {
    const Sizes s = sizes_of(r);
    check_silu(r, "hidden_act");
    check_dense(r);
    Network out;
    out.about.width = s.width;
    out.about.context = r.tokens({"max_position_embeddings", ""});
    out.embedding = r.matrix("model.embed_tokens.weight", s.width);
    const double part =
        r.number({"partial_rotary_factor", ""}, r.number({"rope_parameters.partial_rotary_factor", ""}, 0.25));
    if (!(part >= 0 && part <= 1))
        r.refuse("partial_rotary_factor: ", number_text(part), ", expected a number from 0 to 1");
    const auto rotary = rotary_positions(r, s.head, static_cast<Index>(static_cast<double>(s.head) * part), false);
    for (Index i = 0; i < s.layers; ++i) {
        const std::string at = "model.layers." + std::to_string(i) + ".";
        Layer layer;
        layer.mixer_norm = rms_norm(r, at + "input_layernorm", s.width, s.eps, 1);
        layer.mixer = is_full(r, i) ? full(r, s, rotary, at + "self_attn.") : delta(r, s, at + "linear_attn.");
        layer.mlp_norm = rms_norm(r, at + "post_attention_layernorm", s.width, s.eps, 1);
        layer.mlp = silu_mlp(r, at + "mlp.gate_proj", at + "mlp.up_proj", at + "mlp.down_proj", s.width, s.inner);
        out.layers.push_back(std::move(layer));
    }
    out.norm = rms_norm(r, "model.norm", s.width, s.eps, 1);
    out.head = head_of(r, "lm_head.weight", out.embedding);
    return out;
}

}  // namespace

Layout qwen3_next_layout() {
    return {"qwen3_next",
            "Qwen3-Next without experts: gated delta nets with softmax attention every n-th layer",
            {},
            {"qwen3_next"},
            build_qwen3_next};
}

}  // namespace causeway::model
