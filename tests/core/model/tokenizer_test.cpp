// Tokenizers against Hugging Face's (tests/data/tokenizer/make.py), on any bytes, and files that are none.
#include "core/model/tokenizer.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <random>

#include "core/base/error.hpp"
#include "core/base/interrupt.hpp"
#include "core/model/checkpoint.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::model;
using namespace causeway::testing;
using Json = nlohmann::json;

namespace {

constexpr const char* kinds[] = {"gpt2", "smollm", "llama3", "qwen2"};

std::string file_of(const std::string& kind) { return read_bytes(golden("tokenizer/" + kind + ".json")); }

Tokenizer tokenizer(const std::string& kind) { return Tokenizer::of(parts_of_json(file_of(kind), kind + ".json")); }

// The sentence with which a file is refused, after `change` has been made to it.
template <class Change>
std::string refusal(const std::string& kind, Change&& change) {
    Json file = Json::parse(file_of(kind));
    change(file);
    return message_of([&] { Tokenizer::of(parts_of_json(file.dump(), "t.json")); });
}

// A vocabulary of all bytes and the given tokens, each made of the two before it in its merge.
TokenizerParts small_parts(const std::vector<std::pair<std::string, std::string>>& merges) {
    TokenizerParts parts;
    parts.name = "small";
    for (int byte = 0; byte < 256; ++byte) parts.tokens.push_back(std::string(1, static_cast<char>(byte)));
    for (const auto& [left, right] : merges) parts.tokens.push_back(left + right);
    for (std::size_t id = 0; id < parts.tokens.size(); ++id) parts.words.push_back(static_cast<Token>(id));
    parts.merges = merges;
    parts.splitter.add_gpt2();
    return parts;
}

}  // namespace

TEST_CASE("ids are those of Hugging Face's tokenizers", "[model][tokenizer]") {
    const Json all = Json::parse(read_bytes(golden("tokenizer/golden.json")));
    for (const std::string kind : kinds) {
        const Tokenizer t = tokenizer(kind);
        for (const Json& one : all.at(kind)) {
            const auto text = one.at("text").get<std::string>();
            INFO(kind << ": " << text);
            Index lost = -1;
            CHECK(t.encode(text, true, &lost) == one.at("ids").get<std::vector<Token>>());
            CHECK(lost == 0);
            if (kind != "qwen2") CHECK(t.decode(t.encode(text)) == text);
        }
        CHECK(t.size() == 505);
        CHECK(t.adds_bos() == (kind == "llama3"));
        CHECK(t.bos() == (kind == "llama3" ? t.find("<|begin|>") : std::nullopt));
        CHECK(!t.find("no such token"));
    }
}

TEST_CASE("special tokens that a text spells are text where that is asked for", "[model][tokenizer]") {
    const Tokenizer t = tokenizer("gpt2");
    const std::string text = "<|user|>foo bar<|end|>";
    const auto special = t.encode(text), plain = t.encode(text, false);
    CHECK(special == std::vector<Token>{*t.find("<|user|>"), *t.find("foo bar"), *t.find("<|end|>")});
    CHECK(plain.size() > special.size());
    CHECK(std::count(plain.begin(), plain.end(), *t.find("<|user|>")) == 0);
    CHECK(std::count(plain.begin(), plain.end(), *t.find("foo bar")) == 1);  // which is text
    CHECK(t.decode(plain) == text);
}

TEST_CASE("any bytes come back", "[model][tokenizer]") {
    std::mt19937 random(7);
    for (const std::string kind : {"gpt2", "smollm", "llama3"}) {
        const Tokenizer t = tokenizer(kind);
        for (int round = 0; round < 300; ++round) {
            std::string text(random() % 200, '\0');
            // Bytes of all kinds, and such as nearly make characters.
            for (char& c : text)
                c = static_cast<char>(random() % 3 ? random() : "\xE2\x82\xAC\xF0\x9F a1"[random() % 8]);
            REQUIRE(t.decode(t.encode(text)) == text);
        }
        for (const std::string text :
             {"\xF0\x9F\x98", "\xED\xA0\x80", "\xC0\xAF", "\xF4\x90\x80\x80", "a\xFF", "\x80\x80 b"})
            CHECK(t.decode(t.encode(text)) == text);
    }
    // Composing touches nothing that is no UTF-8.
    const Tokenizer t = tokenizer("qwen2");
    CHECK(t.decode(t.encode("e\xCC\x81\xFF"
                            "e\xCC\x81\xE2\x82")) == "\xC3\xA9\xFF\xC3\xA9\xE2\x82");
}

TEST_CASE("a vocabulary of bytes takes and gives bytes", "[model][tokenizer]") {
    const Tokenizer t = Tokenizer::bytes();
    std::string all;
    for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
    const auto ids = t.encode(all);
    CHECK(ids.size() == 256);
    CHECK(ids[255] == 255);
    CHECK(t.decode(ids) == all);
    CHECK(t.size() == 256);
    CHECK(!t.bos());
    CHECK(t.ends().empty());
    CHECK(message_of([&] { (void)t.decode(std::vector<Token>{1, 256}); }) == "ids: got 256, expected 0 to 255");
    CHECK(message_of([&] { (void)t.decode(std::vector<Token>{-1}); }) == "ids: got -1, expected 0 to 255");
}

TEST_CASE("pairs are joined in the order of the merges, and of equals from the left", "[model][tokenizer]") {
    const Tokenizer t = Tokenizer::of(small_parts({{"b", "c"}, {"a", "b"}, {"a", "a"}, {"aa", "aa"}, {"bc", "d"}}));
    CHECK(t.encode("abc") == std::vector<Token>{'a', 256});  // b and c first
    CHECK(t.encode("aaa") == std::vector<Token>{258, 'a'});  // the left pair
    CHECK(t.encode("aaaaaaa") == std::vector<Token>{259, 258, 'a'});
    CHECK(t.encode("abcd") == std::vector<Token>{'a', 260});
    // The same word again comes from the words that were seen.
    CHECK(t.encode(" abc abc abc") == std::vector<Token>{' ', 'a', 256, ' ', 'a', 256, ' ', 'a', 256});
}

TEST_CASE("a long word takes no quadratic time", "[model][tokenizer]") {
    // Quadratic, these would be a million million steps: the test would never end.
    const Tokenizer t = tokenizer("gpt2");
    for (const char c : {'a', ' ', '\n', '!'}) {
        const std::string text(1 << 20, c);
        CHECK(t.decode(t.encode(text)) == text);
    }
    const Tokenizer llama = tokenizer("llama3");
    const std::string blanks = std::string(1 << 20, ' ') + "x" + std::string(1 << 20, '\r');
    CHECK(llama.decode(llama.encode(blanks)) == blanks);
}

TEST_CASE("bytes that have no token are dropped and counted, or become the unknown token", "[model][tokenizer]") {
    TokenizerParts parts = small_parts({{"a", "b"}});
    parts.tokens['x'] = parts.tokens['y'] = "?";
    Index lost = 0;
    CHECK(Tokenizer::of(parts).encode("ax yb", true, &lost) == std::vector<Token>{'a', ' ', 'b'});
    CHECK(lost == 2);
    CHECK(Tokenizer::of(parts).encode("axyb", true, &lost) == std::vector<Token>{256});  // as the libraries join them
    parts.unknown = 0;
    CHECK(Tokenizer::of(parts).encode("axyb") == std::vector<Token>{'a', 0, 0, 'b'});
    parts.fuse_unknown = true;
    CHECK(Tokenizer::of(parts).encode("axyb", true, &lost) == std::vector<Token>{'a', 0, 'b'});
    CHECK(lost == 2);
}

TEST_CASE("encoding can be stopped", "[model][tokenizer]") {
    const Tokenizer t = tokenizer("gpt2");
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += " w" + std::to_string(i);
    interrupt::request();
    CHECK_THROWS_AS(t.encode(text), Interrupted);
    interrupt::clear();
}

TEST_CASE("a tokenizer.json that is not known is refused in one sentence", "[model][tokenizer]") {
    CHECK(message_of([] { parts_of_json("{", "t.json"); }) == "t.json: is not valid JSON at byte 2");
    CHECK(message_of([] { parts_of_json("[]", "t.json"); }) == "t.json: is no object, expected a tokenizer.json");
    CHECK(refusal("gpt2", [](Json& f) { f.erase("pre_tokenizer"); }) ==
          "t.json: pre_tokenizer: got null, expected one that ends in ByteLevel");
    CHECK(refusal("gpt2", [](Json& f) {
              f["pre_tokenizer"] = {{"type", "Metaspace"}};
          }) == "t.json: pre_tokenizer: got \"Metaspace\", expected Split, Digits or ByteLevel");
    CHECK(refusal("gpt2", [](Json& f) { f["pre_tokenizer"]["add_prefix_space"] = true; }) ==
          "t.json: pre_tokenizer: ByteLevel puts a blank in front, which is not known here");
    CHECK(refusal("llama3", [](Json& f) { f["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a+)+$"; }) ==
          "t.json: pre_tokenizer: Split: pattern: got \"(a+)+$\", expected that of gpt-2, llama 3 or qwen2");
    CHECK(refusal("llama3", [](Json& f) { f["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed"; }) ==
          "t.json: pre_tokenizer: Split: behavior: got \"Removed\", expected Isolated");
    CHECK(refusal("qwen2", [](Json& f) {
              f["normalizer"] = {{"type", "Lowercase"}};
          }) == "t.json: normalizer: got \"Lowercase\", expected none or NFC");
    CHECK(refusal("gpt2", [](Json& f) { f["model"]["type"] = "Unigram"; }) ==
          "t.json: model: got \"Unigram\", expected BPE");
    CHECK(refusal("gpt2", [](Json& f) { f["model"]["byte_fallback"] = true; }) ==
          "t.json: model: has byte_fallback, as SentencePiece's vocabularies have, expected one of bytes");
    CHECK(refusal("gpt2", [](Json& f) { f["model"]["dropout"] = 0.1; }) == "t.json: dropout: got 0.1, expected none");
    CHECK(refusal("gpt2", [](Json& f) {
              f["model"]["merges"].push_back({"t", "zzz"});
          }) == "t.json: a merge makes or takes \"zzz\", which is no token");
    CHECK(refusal("gpt2", [](Json& f) { f["model"]["merges"].push_back("ab"); }) ==
          "t.json: the merge \"ab\" names one token, expected two");
    CHECK(refusal("gpt2", [](Json& f) { f["model"]["vocab"]["a"] = 4000000000u; }) ==
          "t.json: vocab: got 4000000000, expected a whole number from 0 on as id");
    CHECK(refusal("gpt2", [](Json& f) {
              f["model"]["vocab"]["a"] = f["model"]["vocab"]["b"];
          }).starts_with("t.json: vocab: two tokens have the id "));
    CHECK(refusal("gpt2", [](Json& f) {
              f["model"]["vocab"] = Json::object(), f["model"]["merges"] = Json::array();
              f["added_tokens"] = Json::array();
          }) == "t.json: the vocabulary is empty");
    CHECK(refusal("gpt2", [](Json& f) { f["model"]["unk_token"] = "<unk>"; }) ==
          "t.json: unk_token: got \"<unk>\", which the vocabulary does not have");
    CHECK(refusal("gpt2", [](Json& f) { f["added_tokens"][0]["lstrip"] = true; }) ==
          "t.json: added_tokens: \"<|begin|>\" has lstrip, which is not known here");
    CHECK(refusal("llama3", [](Json& f) {
              f["post_processor"]["processors"][1]["single"][0]["SpecialToken"]["id"] = "x";
          }) == "t.json: post_processor: \"x\" is none of the added tokens");
    CHECK(refusal("gpt2", [](Json& f) { f["added_tokens"][1]["id"] = f["added_tokens"][0]["id"]; }) ==
          "t.json: added_tokens: \"<|end|>\" has the id 500, which another token has");
    CHECK(refusal("gpt2", [](Json& f) { f["added_tokens"][0]["id"] = 3; }) ==
          "t.json: added_tokens: \"<|begin|>\" has the id 3, which another token has");
    CHECK(refusal("llama3", [](Json& f) {
              f["post_processor"] = {{"type", "BertProcessing"}};
          }) == "t.json: post_processor: got \"BertProcessing\", expected TemplateProcessing or ByteLevel");
}

TEST_CASE("nesting without end in a tokenizer.json is refused", "[model][tokenizer]") {
    const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
    CHECK(message_of([&] { parts_of_json(deep, "t.json"); }) == "t.json: is no object, expected a tokenizer.json");
    CHECK(message_of([&] { parts_of_json("{\"pre_tokenizer\":" + deep + "}", "t.json"); }).size() < 300);
}

namespace {

// What a GGUF file would say.
class Said : public Metadata {
public:
    std::map<std::string, double> numbers_;
    std::map<std::string, bool> flags_;
    std::map<std::string, std::string> texts_;
    std::map<std::string, std::vector<std::string>> text_lists_;
    std::map<std::string, std::vector<double>> number_lists_;

    std::vector<std::string> keys() const override { return {}; }
    std::optional<double> number(const std::string& key) const override { return get(numbers_, key); }
    std::optional<bool> flag(const std::string& key) const override { return get(flags_, key); }
    std::optional<std::string> text(const std::string& key) const override { return get(texts_, key); }
    std::optional<Index> count(const std::string&) const override { return std::nullopt; }
    std::vector<double> numbers(const std::string& key) const override {
        return get(number_lists_, key).value_or(std::vector<double>{});
    }
    std::vector<bool> flags(const std::string&) const override { return {}; }
    std::vector<std::string> texts(const std::string& key) const override {
        return get(text_lists_, key).value_or(std::vector<std::string>{});
    }

private:
    template <class T>
    static std::optional<T> get(const std::map<std::string, T>& values, const std::string& key) {
        const auto found = values.find(key);
        return found == values.end() ? std::nullopt : std::optional<T>(found->second);
    }
};

// The same tokenizer as a tokenizer.json of tests/data says it, in the words of GGUF.
Said said(const std::string& kind, const std::string& pre) {
    const Json file = Json::parse(file_of(kind));
    Said out;
    out.texts_ = {{"tokenizer.ggml.model", "gpt2"}, {"tokenizer.ggml.pre", pre}};
    auto& tokens = out.text_lists_["tokenizer.ggml.tokens"];
    auto& types = out.number_lists_["tokenizer.ggml.token_type"];
    tokens.resize(505);
    types.assign(505, 1);
    for (const auto& [spelling, id] : file.at("model").at("vocab").items()) tokens[id.get<std::size_t>()] = spelling;
    for (const Json& added : file.at("added_tokens")) {
        const auto id = added.at("id").get<std::size_t>();
        tokens[id] = added.at("content").get<std::string>();
        types[id] = added.at("special").get<bool>() ? 3 : 4;
    }
    for (const Json& merge : file.at("model").at("merges"))
        out.text_lists_["tokenizer.ggml.merges"].push_back(merge[0].get<std::string>() + " " +
                                                           merge[1].get<std::string>());
    out.numbers_ = {{"tokenizer.ggml.bos_token_id", 500}, {"tokenizer.ggml.eos_token_id", 501}};
    return out;
}

}  // namespace

TEST_CASE("GGUF metadata say the same as a tokenizer.json", "[model][tokenizer]") {
    const Json all = Json::parse(read_bytes(golden("tokenizer/golden.json")));
    for (const auto& [kind, pre] :
         {std::pair<std::string, std::string>{"gpt2", "gpt-2"}, {"smollm", "smollm"}, {"llama3", "llama-bpe"}}) {
        const Tokenizer t = Tokenizer::of(parts_of_gguf(said(kind, pre), "m.gguf"));
        for (const Json& one : all.at(kind)) {
            INFO(kind << ": " << one.at("text"));
            CHECK(t.encode(one.at("text").get<std::string>()) == one.at("ids").get<std::vector<Token>>());
        }
        CHECK(t.bos() == 500);
        CHECK(t.eos() == 501);
        CHECK(t.ends() == std::vector<Token>{501});
        CHECK(t.adds_bos() == (kind == "llama3"));
    }
}

TEST_CASE("GGUF metadata of another tokenizer are refused in one sentence", "[model][tokenizer]") {
    const auto refused = [](auto&& change) {
        Said metadata = said("gpt2", "gpt-2");
        change(metadata);
        return message_of([&] { Tokenizer::of(parts_of_gguf(metadata, "m.gguf")); });
    };
    CHECK(refused([](Said&) {}) == "");
    CHECK(refused([](Said& m) { m.texts_.erase("tokenizer.ggml.model"); }) == "m.gguf: has no tokenizer");
    CHECK(refused([](Said& m) { m.texts_["tokenizer.ggml.model"] = "llama"; }) ==
          "m.gguf: tokenizer.ggml.model: got \"llama\", expected \"gpt2\", byte-level byte pairs");
    CHECK(refused([](Said& m) {
              m.texts_["tokenizer.ggml.pre"] = "tekken";
          }).starts_with("m.gguf: tokenizer.ggml.pre: got \"tekken\", expected one of gpt-2, llama-bpe, "));
    CHECK(refused([](Said& m) { m.number_lists_["tokenizer.ggml.token_type"].pop_back(); }) ==
          "m.gguf: tokenizer.ggml.token_type: got 504 types, expected one for each of the 505 tokens");
    CHECK(refused([](Said& m) {
              m.text_lists_["tokenizer.ggml.tokens"].clear(), m.number_lists_.clear();
          }).starts_with("m.gguf: "));
    CHECK(refused([](Said& m) { m.numbers_["tokenizer.ggml.eos_token_id"] = 505; }) ==
          "m.gguf: the token that ends a text is 505, expected one of the 505 tokens");
}

TEST_CASE("a folder has its tokenizer beside it, or is a model of bytes", "[model][tokenizer]") {
    CHECK(Tokenizer::of(*Checkpoint::open(source_dir() + "/experiments/data/tiny-llama")).size() == 256);

    const TemporaryFolder folder;
    const auto open = [&](const std::string& config) {
        write_bytes(folder / "config.json", config);
        return Tokenizer::of(*Checkpoint::open(folder.path()));
    };
    std::filesystem::copy(source_dir() + "/experiments/data/tiny-llama/model.safetensors",
                          folder / "model.safetensors");
    CHECK(message_of([&] { (void)open("{\"vocab_size\": 505}"); }) ==
          folder.path() + "/tokenizer.json: is missing, and only a vocabulary of 256, which is of bytes, needs none");
    write_bytes(folder / "tokenizer.json", file_of("gpt2"));
    const Tokenizer t = open("{\"vocab_size\": 505, \"eos_token_id\": [501, 502], \"bos_token_id\": 500}");
    CHECK(t.size() == 505);
    CHECK(t.bos() == 500);
    CHECK(t.eos() == 501);
    CHECK(t.ends() == std::vector<Token>{501, 502});
}
