#include "core/model/random_checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "core/base/error.hpp"
#include "core/base/parallel.hpp"
#include "core/base/text.hpp"
#include "core/model/folder.hpp"
#include "core/tensor/random.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway::model {
namespace {

struct Named {
    std::string name;
    std::vector<Index> shape;
};

struct Sizes {
    const char* size;
    Index layers, width, heads, key_heads, inner, vocabulary, context;
    double theta;
    bool tied;
};

// "tiny": that of experiments/data. SmolLM2-135M; Llama 3.2 1B, Llama 2 7B, Llama 3.1 8B.
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

std::vector<Named> llama_tensors(const Sizes& s) {
    const Index keys = s.width / s.heads * s.key_heads;
    std::vector<Named> out{{"model.embed_tokens.weight", {s.vocabulary, s.width}}, {"model.norm.weight", {s.width}}};
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

std::vector<Named> transnormer_tensors(const Sizes& s) {
    std::vector<Named> out{{"model.embed_tokens.weight", {s.vocabulary, s.width}},
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

std::vector<Named> retnet_tensors(const Sizes& s) {
    std::vector<Named> out{{"model.embed_tokens.weight", {s.vocabulary, s.width}},
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

struct Architecture {
    const char* name;
    std::vector<Sizes> sizes;
    std::string (*config)(const Sizes&);
    std::vector<Named> (*tensors)(const Sizes&);
};

const std::vector<Architecture>& architectures() {
    static const std::vector<Architecture> list{
        {"llama", {std::begin(llama_sizes), std::end(llama_sizes)}, llama_config, llama_tensors},
        {"transnormer",
         {std::begin(transnormer_sizes), std::end(transnormer_sizes)},
         transnormer_config,
         transnormer_tensors},
        {"retnet", {std::begin(retnet_sizes), std::end(retnet_sizes)}, retnet_config, retnet_tensors},
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

// Standard normal numbers that all weights are made of; their count is prime, so that rows of no width repeat.
constexpr Index sequence_length = 1'000'003;

// Writes n weights of the type, the numbers of the sequence times `scale`, from its place `start` on.
template <class T>
void fill(T* to, Index n, const std::vector<double>& sequence, double scale, Index start) {
    std::vector<T> scaled(sequence.size());
    for (std::size_t i = 0; i < scaled.size(); ++i) scaled[i] = static_cast<T>(static_cast<float>(sequence[i] * scale));
    constexpr Index piece = Index{1} << 20;
    parallel_for((n + piece - 1) / piece, [&](Index p) {
        for (Index at = p * piece, end = std::min(n, at + piece); at < end;) {
            const Index from = (start + at) % sequence_length, count = std::min(end - at, sequence_length - from);
            std::copy_n(scaled.data() + from, count, to + at);
            at += count;
        }
    });
}

template <class T>
void fill_tensor(unsigned char* to, const Named& tensor, const std::vector<double>& sequence, Index start) {
    const Index n = std::accumulate(tensor.shape.begin(), tensor.shape.end(), Index{1}, std::multiplies<>());
    T* weights = reinterpret_cast<T*>(to);
    if (tensor.shape.size() == 1) std::fill_n(weights, n, static_cast<T>(1.0f));
    else fill(weights, n, sequence, 1 / std::sqrt(static_cast<double>(tensor.shape.back())), start);
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

std::shared_ptr<const Checkpoint> random_checkpoint(const std::string& architecture, const std::string& size,
                                                    WeightType type, std::uint64_t seed) {
    const Architecture& kind = architecture_named(architecture);
    const Sizes& sizes = sizes_named(kind, size);
    if (type != WeightType::f32 && type != WeightType::bf16)
        fail("type: ", name(type), ", expected F32 or BF16: random weights are in no other");
    const std::string path = sentence("random ", architecture, " ", size);
    const std::vector<Named> tensors = kind.tensors(sizes);
    const std::size_t element = type == WeightType::f32 ? 4 : 2;

    std::vector<std::size_t> begins{0};
    for (const Named& tensor : tensors) {
        std::size_t n = 1;
        for (const Index extent : tensor.shape) n *= static_cast<std::size_t>(extent);
        begins.push_back((begins.back() + n * element + 63) / 64 * 64);
    }
    auto memory = std::make_shared<Buffer<unsigned char>>(static_cast<Index>(begins.back()));
    std::vector<double> sequence(sequence_length);
    random::normals(seed, 0, sequence.data(), sequence_length);

    Contents contents;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        unsigned char* at = memory->data() + begins[i];
        const Index start = static_cast<Index>(begins[i] % static_cast<std::size_t>(sequence_length));
        (type == WeightType::f32 ? fill_tensor<float> : fill_tensor<bfloat16>)(at, tensors[i], sequence, start);
        contents.tensors[tensors[i].name] = stored_tensor(tensors[i].shape, type, at, path + ": " + tensors[i].name);
    }
    contents.metadata = read_json_entries(kind.config(sizes), path);
    contents.owned = std::move(memory);
    return std::make_shared<const Checkpoint>(path, false, std::move(contents));
}

}  // namespace causeway::model
