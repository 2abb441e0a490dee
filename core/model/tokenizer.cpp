#include "core/model/tokenizer.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <unordered_map>

#include "core/base/error.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/text.hpp"  // in_quotes
#include "core/base/utf8.hpp"

namespace causeway::model {
namespace {

constexpr std::size_t longest_text = INT32_MAX;
constexpr std::size_t words_between_checks = 1 << 14;

// Finds added tokens in a text: of those that begin first, the longest.
class Finder {
public:
    void add(const AddedToken& token) {
        auto& lengths = lengths_[static_cast<unsigned char>(token.text[0])];
        if (std::find(lengths.begin(), lengths.end(), token.text.size()) == lengths.end()) {
            lengths.push_back(token.text.size());
            std::sort(lengths.rbegin(), lengths.rend());
        }
        tokens_[token.text] = token;
    }

    const AddedToken* at(std::string_view text, bool special) const {
        for (const std::size_t length : lengths_[static_cast<unsigned char>(text[0])]) {
            if (length > text.size()) continue;
            const auto found = tokens_.find(text.substr(0, length));
            if (found != tokens_.end() && (special || !found->second.special)) return &found->second;
        }
        return nullptr;
    }

    // Calls `gap` for what stands between the tokens and `token` for the tokens, in order.
    template <class Gap, class Found>
    void split(std::string_view text, bool special, Gap&& gap, Found&& token) const {
        std::size_t from = 0;
        for (std::size_t i = 0; !tokens_.empty() && i < text.size();) {
            const AddedToken* found = at(text.substr(i), special);
            if (!found) {
                ++i;
                continue;
            }
            if (i > from) gap(text.substr(from, i - from));
            token(found->id);
            from = i += found->text.size();
        }
        if (from < text.size()) gap(text.substr(from));
    }

    const AddedToken* find(std::string_view text) const {
        const auto found = tokens_.find(text);
        return found == tokens_.end() ? nullptr : &found->second;
    }

private:
    // Finds without a copy of what is looked for.
    struct Hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
    };

    std::array<std::vector<std::size_t>, 256> lengths_;  // by the first byte, longest first
    std::unordered_map<std::string, AddedToken, Hash, std::equal_to<>> tokens_;
};

// The composed form (NFC) of text in UTF-8.
std::string composed(std::string_view text) {
    utf8proc_uint8_t* out = nullptr;
    const utf8proc_ssize_t size =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                     &out, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(out, std::free);
    if (size == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
    if (size < 0) fail_as<SystemError>("a text cannot be brought to its composed form: ", utf8proc_errmsg(size));
    return {reinterpret_cast<const char*>(out), static_cast<std::size_t>(size)};
}

// Composed where it is UTF-8; other bytes stay as they are.
std::string composed_where_utf8(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t good = utf8_prefix(text);
        if (good > 0) out += composed(text.substr(0, good));
        if (good < text.size()) out += text[good];
        text.remove_prefix(std::min(good + 1, text.size()));
    }
    return out;
}

bool is_ascii(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// Words that came before, with the tokens they gave: most words of a text come again. It points into the text and into
// the ids of one call, and a word that falls on the place of another takes it.
class Seen {
public:
    explicit Seen(std::size_t text_size)
        : places_(std::bit_ceil(std::clamp<std::size_t>(text_size / 4, 64, std::size_t{1} << 15))) {}

    struct Place {
        const char* word = nullptr;
        std::uint32_t size = 0, count = 0;
        std::size_t first = 0;
    };

    static constexpr std::size_t longest = 48;

    Place& of(std::string_view word) { return places_[std::hash<std::string_view>{}(word) & (places_.size() - 1)]; }

private:
    std::vector<Place> places_;
};

}  // namespace

struct Tokenizer::Vocabulary {
    bool is_bytes = false;
    std::string pool;                 // the bytes of all tokens, one behind the other
    std::vector<std::size_t> begins;  // of each id, and the end of the last
    std::vector<bool> exists;
    std::unordered_map<std::string_view, Token> words;  // into the pool; only where ignore_merges asks for it
    BytePairs pairs;
    Finder added, added_normalized;
    Splitter splitter;
    bool nfc = false, ignore_merges = false, adds_bos = false;
    std::optional<int> bos, eos;
    std::vector<Token> ends;

    std::string_view token(Token id) const {
        const auto i = static_cast<std::size_t>(id);
        return std::string_view(pool).substr(begins[i], begins[i + 1] - begins[i]);
    }
};

namespace {

// One call of encode.
template <class Vocabulary>
class Encoding {
public:
    Encoding(const Vocabulary& vocabulary, std::size_t text_size) : v_(vocabulary), seen_(text_size) {}

    std::vector<Token> out;
    Index lost = 0;

    void text(std::string_view text, bool special) {
        const auto token = [&](Token id) { out.push_back(id); };
        v_.added.split(
            text, special,
            [&](std::string_view gap) {
                v_.added_normalized.split(
                    normalized(gap), special, [&](std::string_view rest) { words(rest); }, token);
            },
            token);
    }

private:
    std::string_view normalized(std::string_view text) {
        if (!v_.nfc || is_ascii(text)) return text;
        return normalized_.emplace_back(composed_where_utf8(text));
    }

    void words(std::string_view text) {
        v_.splitter.split(text, [&](std::string_view word) {
            if (++count_ % words_between_checks == 0) interrupt::check();
            append(word);
        });
    }

    void append(std::string_view word) {
        if (word.size() > Seen::longest) return append_new(word);
        typename Seen::Place& place = seen_.of(word);
        if (place.size == word.size() && std::memcmp(place.word, word.data(), word.size()) == 0) {
            for (std::size_t i = 0; i < place.count; ++i) out.push_back(Token{out[place.first + i]});
            return;
        }
        const std::size_t first = out.size();
        const Index lost_before = lost;
        append_new(word);
        if (lost == lost_before)
            place = {word.data(), static_cast<std::uint32_t>(word.size()),
                     static_cast<std::uint32_t>(out.size() - first), first};
    }

    void append_new(std::string_view word) {
        if (v_.ignore_merges) {
            const auto found = v_.words.find(word);
            if (found != v_.words.end()) return out.push_back(found->second);
        }
        lost += static_cast<Index>(v_.pairs.append(word, out));
    }

    const Vocabulary& v_;
    Seen seen_;
    std::deque<std::string> normalized_;  // what words in `seen_` point into, beside the text
    std::size_t count_ = 0;
};

void check_id(const TokenizerParts& parts, std::optional<Token> id, const char* what) {
    if (id && (*id < 0 || static_cast<std::size_t>(*id) >= parts.tokens.size()))
        fail_as<IoError>(parts.name, ": the token ", what, " is ", *id, ", expected one of the ", parts.tokens.size(),
                         " tokens");
}

// A checkpoint often names the end of a text alone, where a chat ends a turn with another token.
bool ends_a_turn(std::string_view text) {
    for (const char* end : {"<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<|endoftext|>", "</s>"})
        if (text == end) return true;
    return false;
}

// The joins, from the bytes of each token to its id.
BytePairs pairs_of(const TokenizerParts& parts) {
    std::unordered_map<std::string_view, Token> ids;
    for (const Token id : parts.words) {
        check_id(parts, id, "of a word");
        if (const auto& bytes = parts.tokens[static_cast<std::size_t>(id)]) ids.emplace(*bytes, id);
    }
    BytePairs pairs;
    for (int byte = 0; byte < 256; ++byte) {
        const char c = static_cast<char>(byte);
        if (const auto found = ids.find(std::string_view(&c, 1)); found != ids.end())
            pairs.byte_tokens[static_cast<std::size_t>(byte)] = found->second;
    }
    pairs.unknown = parts.unknown;
    pairs.fuse_unknown = parts.fuse_unknown;
    pairs.reserve(parts.merges.size());
    const auto id_of = [&](const std::string& bytes) {
        const auto found = ids.find(bytes);
        if (found == ids.end())
            fail_as<IoError>(parts.name, ": a merge makes or takes ", in_quotes(bytes), ", which is no token");
        return found->second;
    };
    for (const auto& [left, right] : parts.merges) {
        const Token left_id = id_of(left), right_id = id_of(right);
        pairs.add(left_id, right_id, id_of(left + right));
    }
    return pairs;
}

}  // namespace

Tokenizer Tokenizer::bytes() {
    auto vocabulary = std::make_shared<Vocabulary>();
    vocabulary->is_bytes = true;
    return Tokenizer(std::move(vocabulary));
}

Tokenizer Tokenizer::of(const TokenizerParts& parts) {
    if (parts.tokens.empty()) fail_as<IoError>(parts.name, ": the vocabulary is empty");
    auto v = std::make_shared<Vocabulary>();
    for (const auto& [id, what] : {std::pair(parts.bos, "that begins a text"), std::pair(parts.eos, "that ends a text"),
                                   std::pair(parts.unknown, "for what is unknown")})
        check_id(parts, id, what);
    if (parts.adds_bos && !parts.bos) fail_as<IoError>(parts.name, ": puts a token in front of a text, and names none");
    v->begins.reserve(parts.tokens.size() + 1);
    for (const auto& token : parts.tokens) {
        v->begins.push_back(v->pool.size());
        v->exists.push_back(token.has_value());
        if (token) v->pool += *token;
    }
    v->begins.push_back(v->pool.size());
    v->pairs = pairs_of(parts);
    if (parts.ignore_merges)
        for (const Token id : parts.words) v->words.emplace(v->token(id), id);
    for (const AddedToken& token : parts.added) {
        check_id(parts, token.id, "that was added");
        if (!token.text.empty()) (token.normalized ? v->added_normalized : v->added).add(token);
    }
    v->splitter = parts.splitter;
    v->nfc = parts.nfc;
    v->ignore_merges = parts.ignore_merges;
    v->adds_bos = parts.adds_bos;
    v->bos = parts.bos;
    v->eos = parts.eos;
    if (v->eos) v->ends.push_back(*v->eos);
    for (const Token id : parts.ends) {
        check_id(parts, id, "that ends a text");
        v->ends.push_back(id);
    }
    for (const AddedToken& token : parts.added)
        if (token.special && ends_a_turn(token.text)) v->ends.push_back(token.id);
    std::sort(v->ends.begin(), v->ends.end());
    v->ends.erase(std::unique(v->ends.begin(), v->ends.end()), v->ends.end());
    return Tokenizer(std::move(v));
}

std::vector<Token> Tokenizer::encode(std::string_view text, bool special, Index* lost) const {
    if (lost) *lost = 0;
    if (text.size() > longest_text) fail("text: got ", text.size(), " bytes, expected at most ", longest_text);
    if (vocabulary_->is_bytes) {
        std::vector<Token> out(text.size());
        std::transform(text.begin(), text.end(), out.begin(), [](char c) { return static_cast<unsigned char>(c); });
        return out;
    }
    Encoding<Vocabulary> encoding(*vocabulary_, text.size());
    encoding.text(text, special);
    if (lost) *lost = encoding.lost;
    return std::move(encoding.out);
}

std::string Tokenizer::decode(std::span<const Token> ids) const {
    const Vocabulary& v = *vocabulary_;
    std::string out;
    for (const Token id : ids) {
        if (id < 0 || id >= size()) fail("ids: got ", id, ", expected 0 to ", size() - 1);
        if (v.is_bytes) out += static_cast<char>(id);
        else if (!v.exists[static_cast<std::size_t>(id)])
            fail("ids: got ", id, ", which the vocabulary has no token for");
        else out += v.token(id);
    }
    return out;
}

Index Tokenizer::size() const { return vocabulary_->is_bytes ? 256 : static_cast<Index>(vocabulary_->exists.size()); }

std::optional<int> Tokenizer::bos() const { return vocabulary_->bos; }

std::optional<int> Tokenizer::eos() const { return vocabulary_->eos; }

const std::vector<Token>& Tokenizer::ends() const { return vocabulary_->ends; }

bool Tokenizer::adds_bos() const { return vocabulary_->adds_bos; }

std::optional<Token> Tokenizer::find(std::string_view text) const {
    for (const Finder* finder : {&vocabulary_->added, &vocabulary_->added_normalized})
        if (const AddedToken* token = finder->find(text)) return token->id;
    return std::nullopt;
}

}  // namespace causeway::model
