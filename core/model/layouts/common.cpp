#include "core/model/layouts/common.hpp"

#include <cmath>
#include <numbers>

#include "core/base/text.hpp"

namespace causeway::model {

Linear linear(Reader& r, const std::string& name, Index rows, Index columns) {
    Linear out{r.matrix(name + ".weight", rows, columns)};
    if (r.has(name + ".bias")) out.bias = r.vector(name + ".bias", rows);
    return out;
}

Norm rms_norm(Reader& r, const std::string& name, Index width, double eps, float more) {
    Norm out{width, eps, false, r.vector(name + ".weight", width)};
    for (Index i = 0; i < width; ++i) out.weight[i] += more;
    return out;
}

double norm_eps(const Reader& r, const Key& key, double fallback) {
    const double eps = r.number(key, fallback);
    if (!(eps >= 0)) r.refuse(r.full(key), ": ", number_text(eps), ", expected a number from 0");
    return eps;
}

namespace {

double above_zero(const Reader& r, const Key& key, std::optional<double> fallback = {}) {
    const double x = r.number(key, fallback);
    if (!(x > 0)) r.refuse(r.full(key), ": ", number_text(x), ", expected a number above 0");
    return x;
}

// Llama 3 slows the low frequencies by a factor and leaves the high ones, with a slide between.
void scale_as_llama3(const Reader& r, const std::string& group, std::vector<double>& frequencies) {
    const auto number = [&](const char* name) { return above_zero(r, {group + "." + name, ""}); };
    const double factor = number("factor"), low = number("low_freq_factor"), high = number("high_freq_factor"),
                 context = number("original_max_position_embeddings");
    if (!(high > low))
        r.refuse(group, ": high_freq_factor is ", number_text(high), ", expected more than low_freq_factor");
    for (double& f : frequencies) {
        const double turns = context * f / (2 * std::numbers::pi);  // within the context it was trained for
        const double share = std::clamp((turns - low) / (high - low), 0.0, 1.0);
        f *= share + (1 - share) / factor;
    }
}

}  // namespace

std::shared_ptr<const Rotary> rotary_positions(Reader& r, Index head, Index turned, bool interleaved) {
    if (turned % 2 != 0 || turned > head)
        r.refuse("rotary positions on ", turned, " numbers, expected an even part of a head's ", head);
    // Newer folders keep theta and scaling together.
    const Key nested{"rope_parameters.rope_theta", ""};
    const bool together = !r.gguf() && r.checkpoint().number(nested.folder).has_value();
    const std::string group = together ? "rope_parameters" : "rope_scaling";
    auto out = std::make_shared<Rotary>();
    const double theta = together ? above_zero(r, nested) : above_zero(r, {"rope_theta", "rope.freq_base"}, 10000);
    out->frequencies = Rotary::geometric(theta, turned / 2);
    out->interleaved = interleaved;
    const std::string kind = r.text({group + ".rope_type", "rope.scaling.type"}, r.text({group + ".type", ""}, "none"));
    if (kind == "llama3") {
        scale_as_llama3(r, group, out->frequencies);
    } else if (kind == "linear") {
        const double factor = above_zero(r, {group + ".factor", "rope.scaling.factor"});
        for (double& f : out->frequencies) f /= factor;
    } else if (kind != "none" && kind != "default") {
        r.refuse("the rotary positions are scaled as ", in_quotes(kind), ", expected \"llama3\", \"linear\" or not");
    }
    if (r.gguf() && r.has("rope_freqs.weight")) {  // where GGUF keeps what Llama 3 does: divisors of the frequencies
        const Buffer<float> by = r.vector("rope_freqs.weight", turned / 2);
        for (Index i = 0; i < by.size(); ++i) {
            if (!(by[i] > 0))
                r.refuse("tensor \"rope_freqs.weight\": has ", number_text(by[i]), ", expected numbers above 0");
            out->frequencies[static_cast<std::size_t>(i)] /= static_cast<double>(by[i]);
        }
    }
    return out;
}

AttentionSizes attention_sizes(const Reader& r) {
    const Key keys{"num_key_value_heads", "attention.head_count_kv"};
    AttentionSizes s{};
    s.width = r.size({"hidden_size", "embedding_length"});
    s.heads = r.size({"num_attention_heads", "attention.head_count"});
    s.key_heads = r.size(keys, s.heads);
    check_divides(r, keys, s.key_heads, s.heads, "heads");
    s.head = r.size({"head_dim", "attention.key_length"}, std::max<Index>(s.width / s.heads, 1));
    return s;
}

SoftmaxParts softmax_parts(Reader& r, const std::string& at, const AttentionSizes& s, bool gated) {
    SoftmaxParts parts;
    parts.heads = s.heads, parts.key_heads = s.key_heads, parts.width = s.head, parts.gated = gated;
    parts.q = linear(r, at + "q_proj", (gated ? 2 : 1) * s.heads * s.head, s.width);
    parts.k = linear(r, at + "k_proj", s.key_heads * s.head, s.width);
    parts.v = linear(r, at + "v_proj", s.key_heads * s.head, s.width);
    parts.out = linear(r, at + "o_proj", s.width, s.heads * s.head);
    return parts;
}

std::unique_ptr<GatedMlp> silu_mlp(Reader& r, const std::string& gate, const std::string& up, const std::string& down,
                                   Index width, Index inner) {
    return std::make_unique<GatedMlp>(linear(r, gate, inner, width), linear(r, up, inner, width),
                                      linear(r, down, width, inner), Activation::silu);
}

std::optional<bool> is_full_attention(const Reader& r, Index i) {
    const std::vector<std::string> types = r.checkpoint().texts("layer_types");
    if (types.empty()) return {};
    if (static_cast<std::size_t>(i) >= types.size())
        r.refuse("layer_types: of ", types.size(), " layers, expected one for each of num_hidden_layers");
    const std::string& type = types[static_cast<std::size_t>(i)];
    if (type != "full_attention" && type != "linear_attention")
        r.refuse("layer_types: ", in_quotes(type), ", expected \"full_attention\" or \"linear_attention\"");
    return type == "full_attention";
}

Linear head_of(Reader& r, const std::string& name, const Weight& embedding) {
    const bool tied = !r.has(name) || r.flag({"tie_word_embeddings", ""}, false);
    return {tied ? embedding : r.matrix(name, embedding.columns)};
}

void check_silu(const Reader& r, const char* key) {
    const std::string f = r.text({key, ""}, "silu");
    if (f != "silu" && f != "swish") r.refuse(key, ": ", in_quotes(f), ", expected \"silu\"");
}

void check_divides(const Reader& r, const Key& key, Index number, Index whole, const char* name) {
    if (whole % number != 0) r.refuse(r.full(key), ": ", number, ", expected a divisor of the ", whole, " ", name);
}

}  // namespace causeway::model
