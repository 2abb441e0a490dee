// Llama, and what is built like it: Mistral, SmolLM, Qwen2, Qwen3. RMS norms before attention and before a gated MLP
// with SiLU, rotary positions, grouped queries, as a rule without biases (Touvron et al. 2023).
#include <cmath>
#include <numbers>

#include "core/base/text.hpp"
#include "core/model/blocks/softmax.hpp"
#include "core/model/layout.hpp"

namespace causeway::model {
namespace {

struct Sizes {
    Index width, heads, key_heads, head, inner;
    double eps;
};

Sizes sizes_of(const Reader& r) {
    Sizes s{};
    s.width = r.size({"hidden_size", "embedding_length"});
    s.heads = r.size({"num_attention_heads", "attention.head_count"});
    s.key_heads = r.size({"num_key_value_heads", "attention.head_count_kv"}, s.heads);
    if (s.heads % s.key_heads != 0)
        r.refuse(r.full({"num_key_value_heads", "attention.head_count_kv"}), ": ", s.key_heads,
                 ", expected a divisor of the ", s.heads, " heads");
    s.head = r.size({"head_dim", "attention.key_length"}, std::max<Index>(s.width / s.heads, 1));
    s.inner = r.size({"intermediate_size", "feed_forward_length"});
    s.eps = r.number({"rms_norm_eps", "attention.layer_norm_rms_epsilon"}, 1e-6);
    if (!(s.eps >= 0)) r.refuse("the epsilon of the norms is ", number_text(s.eps), ", expected a number from 0");
    return s;
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

// Llama 3 slows the low frequencies of its rotary positions by a factor and leaves the high ones, with a slide between.
void scale_as_llama3(const Reader& r, std::vector<double>& frequencies) {
    const double factor = r.number({"rope_scaling.factor", nullptr}),
                 low = r.number({"rope_scaling.low_freq_factor", nullptr}),
                 high = r.number({"rope_scaling.high_freq_factor", nullptr}),
                 context = r.number({"rope_scaling.original_max_position_embeddings", nullptr});
    if (!(factor > 0 && high > low && context > 0))
        r.refuse("rope_scaling: expected factor > 0, high_freq_factor > low_freq_factor and a context > 0");
    for (double& f : frequencies) {
        const double turns = context * f / (2 * std::numbers::pi);  // within the context it was trained for
        const double share = std::clamp((turns - low) / (high - low), 0.0, 1.0);
        f *= share + (1 - share) / factor;
    }
}

std::shared_ptr<const Rotary> rotary_of(Reader& r, const Sizes& s) {
    auto out = std::make_shared<Rotary>();
    const Index turned = r.size({nullptr, "rope.dimension_count"}, s.head);
    if (turned % 2 != 0 || turned > s.head)
        r.refuse("rotary positions on ", turned, " numbers, expected an even part of a head's ", s.head);
    const double theta =
        r.number({"rope_theta", "rope.freq_base"}, r.number({"rope_parameters.rope_theta", nullptr}, 10000));
    if (!(theta > 0))
        r.refuse(r.full({"rope_theta", "rope.freq_base"}), ": ", number_text(theta), ", expected a number above 0");
    out->frequencies = Rotary::geometric(theta, turned / 2);
    out->interleaved = r.gguf() && r.architecture() == "llama";
    const std::string kind =
        r.text({"rope_scaling.rope_type", "rope.scaling.type"}, r.text({"rope_scaling.type", nullptr}, "none"));
    if (kind == "llama3") {
        scale_as_llama3(r, out->frequencies);
    } else if (kind == "linear") {
        const double factor = r.number({"rope_scaling.factor", "rope.scaling.factor"});
        if (!(factor > 0))
            r.refuse(r.full({"rope_scaling.factor", "rope.scaling.factor"}), ": ", number_text(factor),
                     ", expected a number above 0");
        for (double& f : out->frequencies) f /= factor;
    } else if (kind != "none" && kind != "default") {
        r.refuse("rope scaling ", in_quotes(kind), ", expected \"llama3\", \"linear\" or none");
    }
    if (r.gguf() && r.has("rope_freqs.weight")) {  // where GGUF keeps what Llama 3 does: divisors of the frequencies
        const Buffer<float> by = r.vector("rope_freqs.weight", turned / 2);
        for (Index i = 0; i < by.size(); ++i)
            out->frequencies[static_cast<std::size_t>(i)] /= static_cast<double>(by[i]);
    }
    return out;
}

Linear linear(Reader& r, const std::string& name, Index rows, Index columns) {
    Linear out{r.matrix(name + ".weight", rows, columns)};
    if (r.has(name + ".bias")) out.bias = r.vector(name + ".bias", rows);
    return out;
}

Norm norm(Reader& r, const std::string& name, Index width, double eps) {
    return {width, eps, false, r.vector(name + ".weight", width)};
}

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
        parts.q_norm = norm(r, at + n.q_norm, s.head, s.eps);
        parts.k_norm = norm(r, at + n.k_norm, s.head, s.eps);
    }
    parts.rotary = rotary;
    Layer out;
    out.mixer_norm = norm(r, at + n.norm, s.width, s.eps);
    out.mixer = softmax_mixer(std::move(parts));
    out.mlp_norm = norm(r, at + n.mlp_norm, s.width, s.eps);
    out.mlp =
        std::make_unique<GatedMlp>(linear(r, at + n.gate, s.inner, s.width), linear(r, at + n.up, s.inner, s.width),
                                   linear(r, at + n.down, s.width, s.inner), Activation::silu);
    return out;
}

// The tokens that attention reaches back: a window that slides is not built, a text within it needs none.
Index window(const Reader& r, Index context) {
    const Key key{"sliding_window", "attention.sliding_window"};
    if (!r.flag({"use_sliding_window", nullptr}, true)) return 0;
    const Index n = r.size(key, 0, 0);
    return n > 0 && (context == 0 || n < context) ? n : 0;
}

Network build_llama(Reader& r) {
    const Sizes s = sizes_of(r);
    if (const std::string f = r.text({"hidden_act", nullptr}, "silu"); f != "silu" && f != "swish")
        r.refuse("hidden_act: ", in_quotes(f), ", expected \"silu\"");
    Network out;
    out.about.width = s.width;
    out.about.context = r.size({"max_position_embeddings", "context_length"}, 0, 0);
    out.longest = window(r, out.about.context);
    const std::string embedding = r.gguf() ? "token_embd.weight" : "model.embed_tokens.weight",
                      head = r.gguf() ? "output.weight" : "lm_head.weight";
    out.embedding = r.matrix(embedding, s.width);
    const Index layers = r.size({"num_hidden_layers", "block_count"});
    const auto rotary = rotary_of(r, s);
    for (Index i = 0; i < layers; ++i) out.layers.push_back(layer(r, s, rotary, i));
    out.norm = norm(r, r.gguf() ? "output_norm" : "model.norm", s.width, s.eps);
    const bool tied = !r.has(head) || r.flag({"tie_word_embeddings", nullptr}, false);
    out.head = {tied ? out.embedding : r.matrix(head, s.width)};
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
