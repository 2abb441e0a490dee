// Text as the numbers that a language model reads, and back: byte-level byte-pair encoding as GGUF files and
// tokenizer.json describe it. The ids are those of Hugging Face's tokenizers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/memory.hpp"  // Index
#include "core/model/byte_pairs.hpp"
#include "core/model/split.hpp"

namespace causeway::model {

class Checkpoint;
class Metadata;

// A token that is found in a text as it stands, before anything else is done with it.
struct AddedToken {
    Token id;
    std::string text;
    bool special;             // it marks something (a turn, the end) and is no text
    bool normalized = false;  // it is looked for behind the others, in normalised text
};

// What a tokenizer is made of, whatever file it came from.
struct TokenizerParts {
    std::string name;                                         // what messages call it
    std::vector<std::optional<std::string>> tokens;           // the bytes of each id; none: there is no such token
    std::vector<Token> words;                                 // ids that byte pairs can lead to
    std::vector<std::pair<std::string, std::string>> merges;  // bytes of the left and the right token, in order
    std::vector<AddedToken> added;
    Splitter splitter;
    bool nfc = false;            // text is brought to Unicode's composed form first
    bool ignore_merges = false;  // a word that is a token is that token
    bool fuse_unknown = false;
    std::optional<Token> unknown, bos, eos;
    std::vector<Token> ends;  // tokens that end a text, beside eos
    bool adds_bos = false;
};

// Of the text of a tokenizer.json; of a GGUF file's metadata. Throw IoError in one sentence that names the file and
// what is wrong or not known of it.
TokenizerParts parts_of_json(std::string_view text, const std::string& name);
TokenizerParts parts_of_gguf(const Metadata& metadata, const std::string& name);

class Tokenizer {
public:
    // Vocabulary 256: a token is a byte.
    static Tokenizer bytes();

    // Throws IoError, naming the file and the fault, for parts that do not fit together.
    static Tokenizer of(const TokenizerParts& parts);

    // Of GGUF metadata, or of the tokenizer.json in the folder of the checkpoint; bytes() where there is none and the
    // vocabulary has 256. Throws IoError where there is none that is known.
    static Tokenizer of(const Checkpoint& checkpoint);

    // The ids of the text, any bytes. `special`: special tokens that the text spells out are those tokens, else they
    // are text. A byte that has no token in the vocabulary is dropped, as the libraries do; `lost` gets how many were.
    // The token that begins a text is not put in front. O(size) but for words, which take O(n log n).
    std::vector<Token> encode(std::string_view text, bool special = true, Index* lost = nullptr) const;

    // The bytes of the tokens, exactly: one token may end within a character. Throws Error for an id that is none.
    std::string decode(std::span<const Token> ids) const;

    Index size() const;  // ids are 0 to size - 1
    std::optional<int> bos() const;
    std::optional<int> eos() const;
    bool adds_bos() const;                                   // in training a text began with bos()
    const std::vector<Token>& ends() const;                  // those that end a text or a turn, eos() among them
    std::optional<Token> find(std::string_view text) const;  // the added token that is spelled so

private:
    struct Vocabulary;
    explicit Tokenizer(std::shared_ptr<const Vocabulary> vocabulary) : vocabulary_(std::move(vocabulary)) {}

    std::shared_ptr<const Vocabulary> vocabulary_;
};

}  // namespace causeway::model
