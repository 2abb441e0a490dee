// MiniMax-01's layers: lightning attention with a fixed decay a head, its q, k and v through SiLU, its output normed
// and gated by a sigmoid, and in some layers softmax attention; a residual is what the norm made of it. Mixtures of
// more than one expert are not read.
#include <cmath>

#include "core/base/text.hpp"
#include "core/model/blocks/activation.hpp"
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

class LightningMixer : public DecayMixer {
public:
    LightningMixer(const Sizes& sizes, std::vector<double> decay, Linear qkv_, Linear gate_, Linear out, Norm norm)
        : DecayMixer(std::move(decay), 1),
          s(sizes),
          qkv(std::move(qkv_)),
          gate(std::move(gate_)),
          out_(std::move(out)),
          norm_(std::move(norm)) {}

    LayerInfo info() const override {
        return {.attention = "linear attention with decay",
                .heads = s.heads,
                .key_heads = s.heads,
                .width = s.head,
                .value_width = s.head,
                .scale = scale(),
                .decay = decay(),
                .replaced = {}};
    }

    Heads heads(const Chunk& chunk, const float* x, LayerState&) const override {
        const Index n = chunk.rows(), wide = 3 * s.heads * s.head;
        Buffer<float> rows(n * wide);
        qkv.run(x, n, rows.data());
        activate(rows.data(), n, wide, Activation::silu);
        const auto part = [&](Index i) {
            return split_heads(rows.data() + i * s.head, wide, chunk.batch, chunk.n, s.heads, s.head, 3 * s.head);
        };
        Heads h;
        h.q = part(0), h.k = part(1), h.v = part(2);
        h.gate = Buffer<float>(n * s.heads * s.head);
        gate.run(x, n, h.gate.data());
        return h;
    }

    void out(const Chunk& chunk, const Heads& h, const Tensor& o, float* y) const override {
        const Index n = chunk.rows(), wide = s.heads * s.head;
        Buffer<float> rows(n * wide);
        join_heads(o, rows.data());
        norm_.run(rows.data(), n, wide, rows.data());
        multiply_by(rows.data(), h.gate.data(), n, wide, Activation::sigmoid);
        out_.run(rows.data(), n, y);
    }

private:
    Sizes s;
    Linear qkv, gate, out_;
    Norm norm_;
};

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
    return std::make_unique<LightningMixer>(s, decays(s, layer), linear(r, at + "qkv_proj", 3 * wide, s.width),
                                            linear(r, at + "output_gate", wide, s.width),
                                            linear(r, at + "out_proj", s.width, wide),
                                            rms_norm(r, at + "norm", wide, 1e-6));
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
