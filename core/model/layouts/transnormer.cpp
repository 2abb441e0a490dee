// TransNormerLLM (Qin et al. 2023): linear attention with a fixed decay a head, its q and k through SiLU, in the first
// layer turned by learned angles (LRPE), its output normed and gated; a gated MLP without activation; norms without
// weights.
#include <cmath>
#include <cstring>

#include "core/base/text.hpp"
#include "core/model/blocks/decay.hpp"
#include "core/model/blocks/heads.hpp"
#include "core/model/layouts/common.hpp"

namespace causeway::model {
namespace {

constexpr double eps = 1e-8;

struct Sizes {
    Index width, heads, hidden, inner, layers;
    Index head() const { return hidden / heads; }
};

struct Parts {
    Sizes sizes;
    Linear qkvu, out;
    Buffer<float> theta;  // [heads, head width], or none
};

class TransnormerMixer : public DecayMixer {
public:
    TransnormerMixer(Parts parts, std::vector<double> decay)
        : DecayMixer(std::move(decay), 1), p(std::move(parts)), norm_{p.sizes.hidden, eps} {}

    LayerInfo info() const override {
        const Index keys = p.theta.size() > 0 ? 2 * p.sizes.head() : p.sizes.head();
        return {.attention = "linear attention with decay",
                .heads = p.sizes.heads,
                .key_heads = p.sizes.heads,
                .width = keys,
                .value_width = p.sizes.head(),
                .scale = scale(),
                .decay = decay(),
                .replaced = {}};
    }

    Heads heads(const Chunk& chunk, const float* x, LayerState&) const override {
        const Index n = chunk.rows(), hidden = p.sizes.hidden;
        Buffer<float> rows(n * 4 * hidden);
        p.qkvu.run(x, n, rows.data());
        Heads out;
        const auto part = [&](Index i) {
            return split_heads(rows.data() + i * hidden, 4 * hidden, chunk.batch, chunk.n, p.sizes.heads,
                               p.sizes.head(), p.sizes.head());
        };
        out.q = placed(chunk, activated(part(0)));
        out.k = placed(chunk, activated(part(1)));
        out.v = part(2);
        out.gate = Buffer<float>(n * hidden);
        for (Index i = 0; i < n; ++i)
            std::copy_n(rows.data() + (4 * i + 3) * hidden, hidden, out.gate.data() + i * hidden);
        return out;
    }

    void out(const Chunk& chunk, const Heads& h, const Tensor& o, float* y) const override {
        const Index n = chunk.rows();
        Buffer<float> rows(n * p.sizes.hidden);
        join_heads(o, rows.data());
        norm_.run(rows.data(), n, p.sizes.hidden, rows.data());
        multiply_by(rows.data(), h.gate.data(), n, p.sizes.hidden, Activation::none);
        p.out.run(rows.data(), n, y);
    }

private:
    static Tensor activated(Tensor x) {
        activate(x.data<float>(), x.size() / x.shape()[3], x.shape()[3], Activation::silu);
        return x;
    }

    // [x cos(pθ), x sin(pθ)] at position p, where the layer has angles.
    Tensor placed(const Chunk& chunk, const Tensor& x) const {
        if (p.theta.size() == 0) return x;
        const Index heads = p.sizes.heads, d = p.sizes.head(), n = chunk.n;
        Tensor out(DType::f32, {chunk.batch, heads, n, 2 * d});
        over_rows(chunk.batch * heads * n, 32 * d, [&](Index first, Index rows) {
            for (Index row = first; row < first + rows; ++row) {
                const float *from = x.data<float>() + row * d, *theta = p.theta.data() + row / n % heads * d;
                float* to = out.data<float>() + row * 2 * d;
                const double position = static_cast<double>(chunk.position + row % n);
                for (Index e = 0; e < d; ++e) {
                    const double angle = position * static_cast<double>(theta[e]);
                    to[e] = from[e] * static_cast<float>(std::cos(angle));
                    to[e + d] = from[e] * static_cast<float>(std::sin(angle));
                }
            }
        });
        return out;
    }

    Parts p;
    Norm norm_;
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
    Parts parts{s,
                {r.matrix(mixer + "qkvu_proj.weight", 4 * s.hidden, s.width)},
                {r.matrix(mixer + "out_proj.weight", s.width, s.hidden)},
                {}};
    if (is_turned(r, i)) parts.theta = r.vector(mixer + "lrpe.theta", s.hidden);
    Layer out;
    out.mixer_norm = {s.width, eps};
    out.mixer = std::make_unique<TransnormerMixer>(std::move(parts), decays(s, i));
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
