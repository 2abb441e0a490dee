// RetNet (Sun et al. 2023) as torchscale and its Hugging Face port have it: retention, which is linear attention with a
// fixed decay a head on q and k turned by rotary positions, its output normed by head and gated; a gated MLP.
#include <cmath>

#include "core/base/text.hpp"
#include "core/model/blocks/activation.hpp"
#include "core/model/blocks/decay.hpp"
#include "core/model/layouts/common.hpp"

namespace causeway::model {
namespace {

struct Sizes {
    Index width, values, inner, layers, heads;
    double eps;
    Index head() const { return width / heads; }
    Index value_head() const { return values / heads; }
};

Sizes sizes_of(const Reader& r) {
    Sizes s{};
    s.width = r.size({"decoder_embed_dim", ""});
    s.values = r.size({"decoder_value_embed_dim", ""}, s.width);
    s.inner = r.size({"decoder_ffn_embed_dim", ""});
    s.layers = r.size({"decoder_layers", ""});
    s.heads = r.size({"decoder_retention_heads", ""});
    s.eps = norm_eps(r, {"layernorm_eps", ""}, 1e-6);
    check_divides(r, {"decoder_retention_heads", ""}, s.heads, s.width, "numbers of decoder_embed_dim");
    check_divides(r, {"decoder_retention_heads", ""}, s.heads, s.values, "numbers of decoder_value_embed_dim");
    if (s.head() % 2 != 0) r.refuse("decoder_embed_dim: ", s.head(), " numbers a head, expected an even number");
    return s;
}

// γ of head h is 1 − 2^(−5−h); with use_lm_decay, 1 − e^s with s from ln(1/32) to ln(1/512) in equal steps.
std::vector<double> decays(const Reader& r, const Sizes& s) {
    const bool spread = r.flag({"use_lm_decay", ""}, false);
    std::vector<double> out;
    for (Index h = 0; h < s.heads; ++h) {
        const double part = s.heads > 1 ? static_cast<double>(h) / static_cast<double>(s.heads - 1) : 0;
        out.push_back(1 - std::exp2(spread ? -5 - 4 * part : -5 - static_cast<double>(h)));
    }
    if (!(out.back() < 1)) r.refuse("decoder_retention_heads: ", s.heads, ", expected at most 47");
    return out;
}

// Pair i is turned by 10000^(−i/(pairs−1)): both ends belong to the range.
std::shared_ptr<const Rotary> positions(const Sizes& s) {
    auto out = std::make_shared<Rotary>();
    const Index pairs = s.head() / 2;
    for (Index i = 0; i < pairs; ++i)
        out->frequencies.push_back(
            std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(std::max<Index>(pairs - 1, 1))));
    out->interleaved = true;
    return out;
}

Activation activation_of(const Reader& r) {
    const std::string f = r.text({"activation_fn", ""}, "gelu");
    if (f == "gelu") return Activation::gelu;
    if (f == "silu" || f == "swish") return Activation::silu;
    r.refuse("activation_fn: ", in_quotes(f), ", expected \"gelu\" or \"swish\"");
}

void check_kind(const Reader& r) {
    const auto refuse = [&](const char* key, bool is, bool wanted) {
        if (is != wanted) r.refuse(key, ": ", is ? "true" : "false", ", expected ", wanted ? "true" : "false");
    };
    refuse("use_glu", r.flag({"use_glu", ""}, true), true);
    refuse("deepnorm", r.flag({"deepnorm", ""}, false), false);
    refuse("decoder_normalize_before", r.flag({"decoder_normalize_before", ""}, true), true);
    refuse("layernorm_embedding", r.flag({"layernorm_embedding", ""}, false), false);
    refuse("use_ffn_rms_norm", r.flag({"use_ffn_rms_norm", ""}, false), false);
}

Layer layer(Reader& r, const Sizes& s, const std::shared_ptr<const Rotary>& rotary, Index i) {
    const std::string at = "model.layers." + std::to_string(i) + ".", mixer = at + "retention.", mlp = at + "ffn.";
    DecayParts parts;
    parts.heads = s.heads, parts.width = parts.step = s.head(), parts.value_width = parts.value_step = s.value_head();
    for (const char* name : {"q_proj", "k_proj"}) parts.inputs.push_back(linear(r, mixer + name, s.width, s.width));
    for (const char* name : {"v_proj", "g_proj"}) parts.inputs.push_back(linear(r, mixer + name, s.values, s.width));
    parts.k = s.width, parts.v = 2 * s.width, parts.gate = 2 * s.width + s.values;
    parts.gate_activation = Activation::silu;
    parts.rotary = rotary;
    parts.norm = {s.value_head(), s.eps};
    parts.out = linear(r, mixer + "out_proj", s.width, s.values);
    parts.decay = decays(r, s);
    parts.scale = 1 / std::sqrt(static_cast<double>(s.head()));
    Layer out;
    out.mixer_norm = rms_norm(r, at + "retention_layer_norm", s.width, s.eps);
    out.mixer = decay_mixer(std::move(parts));
    out.mlp_norm = rms_norm(r, at + "final_layer_norm", s.width, s.eps);
    out.mlp =
        std::make_unique<GatedMlp>(linear(r, mlp + "fc1", s.inner, s.width), linear(r, mlp + "gate", s.inner, s.width),
                                   linear(r, mlp + "fc2", s.width, s.inner), activation_of(r));
    return out;
}

Network build_retnet(Reader& r) {
    check_kind(r);
    const Sizes s = sizes_of(r);
    Network out;
    out.about.width = s.width;
    out.embedding = r.matrix("model.embed_tokens.weight", s.width);
    if (!r.flag({"no_scale_embedding", ""}, true)) out.embedding_scale = std::sqrt(static_cast<double>(s.width));
    const auto rotary = positions(s);
    for (Index i = 0; i < s.layers; ++i) out.layers.push_back(layer(r, s, rotary, i));
    out.norm = rms_norm(r, "model.layer_norm", s.width, s.eps);
    out.head = head_of(r, "lm_head.weight", out.embedding);
    return out;
}

}  // namespace

Layout retnet_layout() { return {"retnet", "RetNet: retention, a gated MLP", {}, {"retnet"}, build_retnet}; }

}  // namespace causeway::model
