// TransNormerLLM (Qin et al. 2023): linear attention with a fixed decay a head, its q and k through SiLU, in the first
// layer turned by learned angles (LRPE), its output normed and gated; a gated MLP without activation; norms without
// weights.
#include <cmath>

#include "core/base/text.hpp"
#include "core/model/blocks/decay.hpp"
#include "core/model/layouts/common.hpp"

namespace causeway::model {
namespace {

constexpr double eps = 1e-8;

struct Sizes {
    Index width, heads, hidden, inner, layers;
    Index head() const { return hidden / heads; }
};

// γ = e^(−slope (1 − layer/(layers−1) + 1e-5)): later layers look further back.
std::vector<double> decays(const Sizes& s, Index layer) {
    std::vector<double> out;
    const double far = s.layers > 1 ? static_cast<double>(layer) / static_cast<double>(s.layers - 1) : 0;
    for (const double slope : alibi_slopes(s.heads)) out.push_back(std::exp(-slope * (1 - far + 1e-5)));
    return out;
}

bool is_turned(const Reader& r, Index layer) {
    const std::vector<double> list = r.checkpoint().numbers("linear_use_lrpe_list");
    return static_cast<std::size_t>(layer) < list.size() && list[static_cast<std::size_t>(layer)] != 0;
}

Layer layer(Reader& r, const Sizes& s, Index i) {
    const std::string at = "model.layers." + std::to_string(i) + ".", mixer = at + "token_mixer.",
                      mlp = at + "channel_mixer.";
    DecayParts parts;
    parts.heads = s.heads, parts.width = parts.value_width = parts.step = parts.value_step = s.head();
    parts.inputs.push_back({r.matrix(mixer + "qkvu_proj.weight", 4 * s.hidden, s.width)});
    parts.k = s.hidden, parts.v = 2 * s.hidden, parts.gate = 3 * s.hidden;
    parts.activation = Activation::silu;
    if (is_turned(r, i)) parts.theta = r.vector(mixer + "lrpe.theta", s.hidden);
    parts.norm = {s.hidden, eps};
    parts.out = {r.matrix(mixer + "out_proj.weight", s.width, s.hidden)};
    parts.decay = decays(s, i);
    Layer out;
    out.mixer_norm = {s.width, eps};
    out.mixer = decay_mixer(std::move(parts));
    out.mlp_norm = {s.width, eps};
    out.mlp = std::make_unique<GatedMlp>(Linear{r.matrix(mlp + "l1.weight", s.inner, s.width)},
                                         Linear{r.matrix(mlp + "l2.weight", s.inner, s.width)},
                                         Linear{r.matrix(mlp + "l3.weight", s.width, s.inner)}, Activation::none);
    return out;
}

Network build_transnormer(Reader& r) {
    check_silu(r, "linear_act_fun");
    if (const std::string norm = r.text({"norm_type", ""}, "simplermsnorm"); norm != "simplermsnorm")
        r.refuse("norm_type: ", in_quotes(norm), ", expected \"simplermsnorm\"");
    if (r.flag({"bias", ""}, false)) r.refuse("bias: true, expected a model without biases");
    Sizes s{};
    s.width = r.size({"decoder_embed_dim", ""});
    s.heads = r.size({"decoder_attention_heads", ""});
    s.hidden = r.size({"hidden_dim", ""}, s.width);
    s.inner = r.size({"glu_dim", ""});
    s.layers = r.size({"decoder_layers", ""});
    if (s.hidden % s.heads != 0) r.refuse("hidden_dim: ", s.hidden, ", expected a multiple of the ", s.heads, " heads");
    Network out;
    out.about.width = s.width;
    out.about.context = r.tokens({"max_position_embeddings", ""});
    out.embedding = r.matrix("model.embed_tokens.weight", s.width);
    if (!r.flag({"no_scale_embedding", ""}, false)) out.embedding_scale = std::sqrt(static_cast<double>(s.width));
    for (Index i = 0; i < s.layers; ++i) out.layers.push_back(layer(r, s, i));
    out.norm = {s.width, eps};
    out.head = {r.matrix("lm_head.weight", s.width)};
    return out;
}

}  // namespace

Layout transnormer_layout() {
    return {"transnormer",
            "TransNormerLLM: linear attention with a fixed decay a head",
            {},
            {"transnormer"},
            build_transnormer};
}

}  // namespace causeway::model
