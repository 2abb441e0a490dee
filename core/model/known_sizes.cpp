#include "core/model/known_sizes.hpp"

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace causeway::model {
namespace {

struct Sizes {
    const char* size;
    Index layers, width, heads, key_heads, inner, vocabulary, context;
    double theta;
    bool tied;
};

// "tiny": that of experiments/data. SmolLM2-135M, Llama 3.2 1B, Llama 2 7B, Llama 3.1 8B.
constexpr Sizes llama_sizes[] = {
    {"tiny", 6, 256, 4, 4, 640, 256, 4096, 1e4, false},
    {"135m", 30, 576, 9, 3, 1536, 49152, 8192, 1e5, true},
    {"1b", 16, 2048, 32, 8, 8192, 128256, 131072, 5e5, true},
    {"7b", 32, 4096, 32, 32, 11008, 32000, 4096, 1e4, false},
    {"8b", 32, 4096, 32, 8, 14336, 128256, 131072, 5e5, false},
};

// "tiny": that of experiments/data. TransNormerLLM-7B.
constexpr Sizes transnormer_sizes[] = {
    {"tiny", 6, 256, 4, 4, 640, 256, 4096, 0, false},
    {"7b", 30, 4096, 32, 32, 11008, 64000, 2048, 0, false},
};

std::string llama_config(const Sizes& s) {
    return sentence("{\"model_type\": \"llama\", \"vocab_size\": ", s.vocabulary, ", \"hidden_size\": ", s.width,
                    ", \"num_hidden_layers\": ", s.layers, ", \"num_attention_heads\": ", s.heads,
                    ", \"num_key_value_heads\": ", s.key_heads, ", \"intermediate_size\": ", s.inner,
                    ", \"max_position_embeddings\": ", s.context, ", \"rope_theta\": ", s.theta,
                    ", \"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": ", s.tied ? "true" : "false", "}");
}

std::vector<RandomTensor> llama_tensors(const Sizes& s) {
    const Index keys = s.width / s.heads * s.key_heads;
    std::vector<RandomTensor> out{{"model.embed_tokens.weight", {s.vocabulary, s.width}},
                                  {"model.norm.weight", {s.width}}};
    if (!s.tied) out.push_back({"lm_head.weight", {s.vocabulary, s.width}});
    for (Index i = 0; i < s.layers; ++i) {
        const std::string at = sentence("model.layers.", i, ".");
        out.insert(out.end(), {{at + "input_layernorm.weight", {s.width}},
                               {at + "self_attn.q_proj.weight", {s.width, s.width}},
                               {at + "self_attn.k_proj.weight", {keys, s.width}},
                               {at + "self_attn.v_proj.weight", {keys, s.width}},
                               {at + "self_attn.o_proj.weight", {s.width, s.width}},
                               {at + "post_attention_layernorm.weight", {s.width}},
                               {at + "mlp.gate_proj.weight", {s.inner, s.width}},
                               {at + "mlp.up_proj.weight", {s.inner, s.width}},
                               {at + "mlp.down_proj.weight", {s.width, s.inner}}});
    }
    return out;
}

std::string transnormer_config(const Sizes& s) {
    std::string lrpe = "1";
    for (Index i = 1; i < s.layers; ++i) lrpe += ", 0";
    return sentence("{\"model_type\": \"transnormer\", \"vocab_size\": ", s.vocabulary,
                    ", \"decoder_embed_dim\": ", s.width, ", \"decoder_layers\": ", s.layers,
                    ", \"decoder_attention_heads\": ", s.heads, ", \"hidden_dim\": ", s.width,
                    ", \"glu_dim\": ", s.inner,
                    ", \"linear_act_fun\": \"silu\", \"norm_type\": \"simplermsnorm\", \"linear_use_lrpe_list\": [",
                    lrpe, "], \"no_scale_embedding\": false, \"bias\": false}");
}

std::vector<RandomTensor> transnormer_tensors(const Sizes& s) {
    std::vector<RandomTensor> out{{"model.embed_tokens.weight", {s.vocabulary, s.width}},
                                  {"lm_head.weight", {s.vocabulary, s.width}},
                                  {"model.layers.0.token_mixer.lrpe.theta", {s.heads, 1, s.width / s.heads}}};
    for (Index i = 0; i < s.layers; ++i) {
        const std::string at = sentence("model.layers.", i, ".");
        out.insert(out.end(), {{at + "token_mixer.qkvu_proj.weight", {4 * s.width, s.width}},
                               {at + "token_mixer.out_proj.weight", {s.width, s.width}},
                               {at + "channel_mixer.l1.weight", {s.inner, s.width}},
                               {at + "channel_mixer.l2.weight", {s.inner, s.width}},
                               {at + "channel_mixer.l3.weight", {s.width, s.inner}}});
    }
    return out;
}

// "tiny": as wide as the others; 1.3B: that of syncdoth's RetNet in Hugging Face's form. Values are as wide as the MLP.
constexpr Sizes retnet_sizes[] = {
    {"tiny", 6, 256, 4, 4, 512, 256, 4096, 0, false},
    {"1.3b", 24, 2048, 8, 8, 3456, 50257, 2048, 0, false},
};

std::string retnet_config(const Sizes& s) {
    return sentence("{\"model_type\": \"retnet\", \"vocab_size\": ", s.vocabulary, ", \"decoder_embed_dim\": ", s.width,
                    ", \"decoder_value_embed_dim\": ", s.inner, ", \"decoder_ffn_embed_dim\": ", s.inner,
                    ", \"decoder_layers\": ", s.layers, ", \"decoder_retention_heads\": ", s.heads, "}");
}

std::vector<RandomTensor> retnet_tensors(const Sizes& s) {
    std::vector<RandomTensor> out{{"model.embed_tokens.weight", {s.vocabulary, s.width}},
                                  {"model.layer_norm.weight", {s.width}},
                                  {"lm_head.weight", {s.vocabulary, s.width}}};
    for (Index i = 0; i < s.layers; ++i) {
        const std::string at = sentence("model.layers.", i, "."), mixer = at + "retention.", mlp = at + "ffn.";
        out.insert(out.end(), {{at + "retention_layer_norm.weight", {s.width}},
                               {mixer + "q_proj.weight", {s.width, s.width}},
                               {mixer + "k_proj.weight", {s.width, s.width}},
                               {mixer + "v_proj.weight", {s.inner, s.width}},
                               {mixer + "g_proj.weight", {s.inner, s.width}},
                               {mixer + "out_proj.weight", {s.width, s.inner}},
                               {at + "final_layer_norm.weight", {s.width}},
                               {mlp + "fc1.weight", {s.inner, s.width}},
                               {mlp + "gate.weight", {s.inner, s.width}},
                               {mlp + "fc2.weight", {s.width, s.inner}}});
    }
    return out;
}

// A small hybrid: softmax attention in every third layer, with two heads of values to one of keys in the others.
constexpr Sizes qwen3_next_sizes[] = {{"tiny", 6, 256, 4, 2, 640, 256, 4096, 1e4, false}};

std::string qwen3_next_config(const Sizes& s) {
    return sentence("{\"model_type\": \"qwen3_next\", \"vocab_size\": ", s.vocabulary, ", \"hidden_size\": ", s.width,
                    ", \"num_hidden_layers\": ", s.layers, ", \"num_attention_heads\": ", s.heads,
                    ", \"num_key_value_heads\": ", s.key_heads, ", \"head_dim\": ", s.width / s.heads,
                    ", \"intermediate_size\": ", s.inner, ", \"max_position_embeddings\": ", s.context,
                    ", \"linear_num_key_heads\": ", s.key_heads, ", \"linear_num_value_heads\": ", s.heads,
                    ", \"linear_key_head_dim\": ", s.width / s.heads,
                    ", \"linear_value_head_dim\": ", s.width / s.heads,
                    ", \"linear_conv_kernel_dim\": 4, \"full_attention_interval\": 3", ", \"num_experts\": 0}");
}

std::vector<RandomTensor> qwen3_next_tensors(const Sizes& s) {
    const Index head = s.width / s.heads, keys = s.key_heads * head;
    std::vector<RandomTensor> out{{"model.embed_tokens.weight", {s.vocabulary, s.width}},
                                  {"model.norm.weight", {s.width}},
                                  {"lm_head.weight", {s.vocabulary, s.width}}};
    for (Index i = 0; i < s.layers; ++i) {
        const std::string at = sentence("model.layers.", i, "."), full = at + "self_attn.", delta = at + "linear_attn.";
        out.insert(out.end(), {{at + "input_layernorm.weight", {s.width}},
                               {at + "post_attention_layernorm.weight", {s.width}},
                               {at + "mlp.gate_proj.weight", {s.inner, s.width}},
                               {at + "mlp.up_proj.weight", {s.inner, s.width}},
                               {at + "mlp.down_proj.weight", {s.width, s.inner}}});
        if ((i + 1) % 3 == 0)
            out.insert(out.end(), {{full + "q_proj.weight", {2 * s.width, s.width}},
                                   {full + "k_proj.weight", {keys, s.width}},
                                   {full + "v_proj.weight", {keys, s.width}},
                                   {full + "o_proj.weight", {s.width, s.width}},
                                   {full + "q_norm.weight", {head}},
                                   {full + "k_norm.weight", {head}}});
        else
            out.insert(out.end(), {{delta + "in_proj_qkvz.weight", {2 * keys + 2 * s.width, s.width}},
                                   {delta + "in_proj_ba.weight", {2 * s.heads, s.width}},
                                   {delta + "out_proj.weight", {s.width, s.width}},
                                   {delta + "conv1d.weight", {2 * keys + s.width, 1, 4}},
                                   {delta + "A_log", {s.heads}},
                                   {delta + "dt_bias", {s.heads}},
                                   {delta + "norm.weight", {head}}});
    }
    return out;
}

// A small one, with softmax attention in every third layer.
constexpr Sizes minimax_sizes[] = {{"tiny", 6, 256, 4, 2, 640, 256, 4096, 1e4, false}};

std::string minimax_config(const Sizes& s) {
    std::string types;
    for (Index i = 0; i < s.layers; ++i)
        types += sentence(i > 0 ? ", " : "", (i + 1) % 3 == 0 ? "\"full_attention\"" : "\"linear_attention\"");
    return sentence("{\"model_type\": \"minimax\", \"vocab_size\": ", s.vocabulary, ", \"hidden_size\": ", s.width,
                    ", \"num_hidden_layers\": ", s.layers, ", \"num_attention_heads\": ", s.heads,
                    ", \"num_key_value_heads\": ", s.key_heads, ", \"intermediate_size\": ", s.inner,
                    ", \"max_position_embeddings\": ", s.context, ", \"layer_types\": [", types, "]}");
}

std::vector<RandomTensor> minimax_tensors(const Sizes& s) {
    const Index keys = s.width / s.heads * s.key_heads;
    std::vector<RandomTensor> out{{"model.embed_tokens.weight", {s.vocabulary, s.width}},
                                  {"model.norm.weight", {s.width}},
                                  {"lm_head.weight", {s.vocabulary, s.width}}};
    for (Index i = 0; i < s.layers; ++i) {
        const std::string at = sentence("model.layers.", i, "."), mixer = at + "self_attn.",
                          expert = at + "block_sparse_moe.experts.0.";
        out.insert(out.end(), {{at + "input_layernorm.weight", {s.width}},
                               {at + "post_attention_layernorm.weight", {s.width}},
                               {expert + "w1.weight", {s.inner, s.width}},
                               {expert + "w3.weight", {s.inner, s.width}},
                               {expert + "w2.weight", {s.width, s.inner}}});
        if ((i + 1) % 3 == 0)
            out.insert(out.end(), {{mixer + "q_proj.weight", {s.width, s.width}},
                                   {mixer + "k_proj.weight", {keys, s.width}},
                                   {mixer + "v_proj.weight", {keys, s.width}},
                                   {mixer + "o_proj.weight", {s.width, s.width}}});
        else
            out.insert(out.end(), {{mixer + "qkv_proj.weight", {3 * s.width, s.width}},
                                   {mixer + "output_gate.weight", {s.width, s.width}},
                                   {mixer + "out_proj.weight", {s.width, s.width}},
                                   {mixer + "norm.weight", {s.width}}});
    }
    return out;
}

struct Architecture {
    const char* name;
    std::vector<Sizes> sizes;
    std::string (*config)(const Sizes&);
    std::vector<RandomTensor> (*tensors)(const Sizes&);
};

const std::vector<Architecture>& architectures() {
    static const std::vector<Architecture> list{
        {"llama", {std::begin(llama_sizes), std::end(llama_sizes)}, llama_config, llama_tensors},
        {"transnormer",
         {std::begin(transnormer_sizes), std::end(transnormer_sizes)},
         transnormer_config,
         transnormer_tensors},
        {"retnet", {std::begin(retnet_sizes), std::end(retnet_sizes)}, retnet_config, retnet_tensors},
        {"qwen3_next",
         {std::begin(qwen3_next_sizes), std::end(qwen3_next_sizes)},
         qwen3_next_config,
         qwen3_next_tensors},
        {"minimax", {std::begin(minimax_sizes), std::end(minimax_sizes)}, minimax_config, minimax_tensors},
    };
    return list;
}

std::string listed(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += (out.empty() ? "\"" : ", \"") + name + "\"";
    return out;
}

const Architecture& architecture_named(const std::string& name) {
    for (const Architecture& one : architectures())
        if (name == one.name) return one;
    fail("arch: ", in_quotes(name), ", expected one of ", listed(known_architectures()),
         did_you_mean(name, known_architectures()));
}

const Sizes& sizes_named(const Architecture& architecture, const std::string& size) {
    for (const Sizes& one : architecture.sizes)
        if (size == one.size) return one;
    fail("size: ", in_quotes(size), ", expected one of ", listed(known_sizes(architecture.name)), " of ",
         architecture.name);
}

}  // namespace

std::vector<std::string> known_architectures() {
    std::vector<std::string> out;
    for (const Architecture& one : architectures()) out.emplace_back(one.name);
    return out;
}

std::vector<std::string> known_sizes(const std::string& architecture) {
    std::vector<std::string> out;
    for (const Architecture& one : architectures())
        if (architecture == one.name)
            for (const Sizes& sizes : one.sizes) out.emplace_back(sizes.size);
    return out;
}

KnownSize known_size(const std::string& architecture, const std::string& size, Index layers) {
    const Architecture& kind = architecture_named(architecture);
    Sizes sizes = sizes_named(kind, size);
    if (layers < 0 || layers > sizes.layers)
        fail("layers: ", layers, ", expected 1 to ", sizes.layers, ", as many as ", architecture, " ", size, " has");
    if (layers > 0) sizes.layers = layers;
    KnownSize out{kind.config(sizes), kind.tensors(sizes)};
    for (RandomTensor& tensor : out.tensors)
        if (tensor.shape.size() == 1) tensor.mean = 1;  // what norms multiply with
    return out;
}

std::shared_ptr<const Checkpoint> random_model(const std::string& architecture, const std::string& size,
                                               WeightType type, std::uint64_t seed, Index layers, bool matrices) {
    const KnownSize known = known_size(architecture, size, layers);
    std::string name = sentence("random ", architecture, " ", size);
    if (layers > 0) name += sentence(", ", layers, layers == 1 ? " layer" : " layers");
    return random_checkpoint(name, known.config, known.tensors, type, seed, matrices);
}

}  // namespace causeway::model
