#include <cmath>
#include <filesystem>

#include "core/base/file.hpp"
#include "core/model/checkpoint.hpp"
#include "core/model/tokenizer_builder.hpp"

namespace causeway::model {
namespace {

constexpr std::uint64_t longest_file = std::uint64_t{1} << 30;

std::optional<Token> id_in(const Metadata& metadata, const std::string& key) {
    const std::optional<double> id = metadata.number(key);
    if (!id) return std::nullopt;
    if (!(*id >= 0 && *id < static_cast<double>(most_tokens)) || *id != std::floor(*id)) return std::nullopt;
    return static_cast<Token>(*id);
}

// Special tokens that the folder's configuration names.
void read_configuration(const Metadata& metadata, TokenizerParts& parts) {
    if (!parts.bos) parts.bos = id_in(metadata, "bos_token_id");
    parts.eos = id_in(metadata, "eos_token_id");
    for (const double id : metadata.numbers("eos_token_id")) {
        if (!(id >= 0 && id < static_cast<double>(parts.tokens.size()))) continue;
        if (!parts.eos) parts.eos = static_cast<Token>(id);
        parts.ends.push_back(static_cast<Token>(id));
    }
    // A configuration may name a token that the vocabulary has no place for; the text then neither begins nor ends so.
    for (auto* id : {&parts.bos, &parts.eos})
        if (*id && static_cast<std::size_t>(**id) >= parts.tokens.size()) id->reset();
}

}  // namespace

TokenizerParts parts_of_gguf(const Metadata& metadata, const std::string& name) {
    Builder builder(name);
    const auto model = metadata.text("tokenizer.ggml.model"), pre = metadata.text("tokenizer.ggml.pre");
    if (!model) builder.wrong("has no tokenizer");
    if (*model != "gpt2")
        builder.wrong("tokenizer.ggml.model: got ", in_quotes(*model), ", expected \"gpt2\", byte-level byte pairs");
    const auto splitter = Splitter::named(pre.value_or("default"));
    if (!splitter) {
        std::string known;
        for (const std::string& one : Splitter::names()) known += (known.empty() ? "" : ", ") + one;
        builder.wrong("tokenizer.ggml.pre: got ", in_quotes(pre.value_or("default")), ", expected one of ", known);
    }
    builder.parts.splitter = *splitter;
    const bool llama3 = pre->starts_with("llama");
    builder.parts.ignore_merges = llama3;

    const auto tokens = metadata.texts("tokenizer.ggml.tokens");
    const auto types = metadata.numbers("tokenizer.ggml.token_type");
    if (!types.empty() && types.size() != tokens.size())
        builder.wrong("tokenizer.ggml.token_type: got ", types.size(), " types, expected one for each of the ",
                      tokens.size(), " tokens");
    constexpr double normal = 1, control = 3, user_defined = 4;
    for (std::size_t id = 0; id < tokens.size(); ++id) {
        const double type = types.empty() ? normal : types[id];
        if (type == normal) {
            builder.word(id, tokens[id]);
            continue;
        }
        builder.text(id, tokens[id]);
        if (type == control || type == user_defined)
            builder.parts.added.push_back({static_cast<Token>(id), tokens[id], type == control});
    }
    for (const std::string& pair : metadata.texts("tokenizer.ggml.merges")) builder.merge(pair);
    builder.parts.bos = id_in(metadata, "tokenizer.ggml.bos_token_id");
    builder.parts.eos = id_in(metadata, "tokenizer.ggml.eos_token_id");
    if (const auto turn = id_in(metadata, "tokenizer.ggml.eot_token_id")) builder.parts.ends.push_back(*turn);
    builder.parts.adds_bos = metadata.flag("tokenizer.ggml.add_bos_token").value_or(llama3);
    return std::move(builder.parts);
}

Tokenizer Tokenizer::of(const Checkpoint& checkpoint) {
    if (checkpoint.gguf()) return of(parts_of_gguf(checkpoint.metadata(), checkpoint.path()));
    const std::string path = checkpoint.path() + "/tokenizer.json";
    if (!std::filesystem::exists(path)) {
        if (checkpoint.number("vocab_size") == 256) return bytes();
        if (!std::filesystem::exists(checkpoint.path()))
            fail_as<IoError>("random weights come with none, but for a vocabulary of 256, which is of bytes");
        fail_as<IoError>(path, ": is missing, and only a vocabulary of 256, which is of bytes, needs none");
    }
    const Source file(path);
    if (file.size() > longest_file)
        fail_as<IoError>(path, ": got ", file.size(), " bytes, expected a tokenizer.json of at most ", longest_file);
    const Buffer<char> text = file.text();
    TokenizerParts parts = parts_of_json({text.data(), static_cast<std::size_t>(text.size())}, path);
    read_configuration(checkpoint.metadata(), parts);
    return of(parts);
}

}  // namespace causeway::model
