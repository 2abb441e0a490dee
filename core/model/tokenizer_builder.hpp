// What the readers of tokenizer files build parts with.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/text.hpp"  // in_quotes
#include "core/base/utf8.hpp"
#include "core/model/tokenizer.hpp"

namespace causeway::model {

constexpr std::size_t most_tokens = std::size_t{1} << 24;

// Vocabularies of bytes spell each byte as a character that prints: GPT-2's alphabet. Bytes that print in Latin-1 are
// themselves, the others follow U+0100 in order.
class Alphabet {
public:
    Alphabet() {
        bytes_.fill(-1);
        std::size_t next = 256;
        for (int byte = 0; byte < 256; ++byte) {
            const bool prints = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
            bytes_[prints ? static_cast<std::size_t>(byte) : next++] = byte;
        }
    }

    // The bytes that a token is spelled for; nothing where it has other characters.
    std::optional<std::string> bytes_of(std::string_view spelling) const {
        std::string out;
        while (!spelling.empty()) {
            const std::size_t length = utf8_character(spelling.substr(0, 4));
            if (length == 0 || length > 2) return std::nullopt;
            const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(spelling[i]) & 0xFF; };
            const std::size_t code = length == 1 ? byte(0) : (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
            if (code >= bytes_.size() || bytes_[code] < 0) return std::nullopt;
            out += static_cast<char>(bytes_[code]);
            spelling.remove_prefix(length);
        }
        return out;
    }

private:
    std::array<int, 256 + 68> bytes_;
};

inline const Alphabet& alphabet() {
    static const Alphabet one;
    return one;
}

// Builds parts; what both kinds of files have.
class Builder {
public:
    explicit Builder(const std::string& name) { parts.name = name; }

    TokenizerParts parts;

    template <class... What>
    [[noreturn]] void wrong(const What&... what) const {
        fail_as<IoError>(parts.name, ": ", what...);
    }

    // A token that the merges may lead to, unless it is spelled in other characters than those of bytes.
    void word(std::size_t id, const std::string& spelling) {
        auto bytes = alphabet().bytes_of(spelling);
        if (bytes && !bytes->empty()) parts.words.push_back(static_cast<Token>(id));
        text(id, bytes ? *bytes : spelling);
    }

    // A token that stands for this text.
    void text(std::size_t id, const std::string& bytes) {
        if (id >= most_tokens)
            wrong("the token ", in_quotes(bytes), " has the id ", id, ", expected one below ", most_tokens);
        if (id >= parts.tokens.size()) parts.tokens.resize(id + 1);
        parts.tokens[id] = bytes;
    }

    void merge(const std::string& left, const std::string& right) {
        const auto left_bytes = alphabet().bytes_of(left), right_bytes = alphabet().bytes_of(right);
        if (!left_bytes || !right_bytes || left.empty() || right.empty())
            wrong("the merge of ", in_quotes(left), " and ", in_quotes(right), " is none of tokens of bytes");
        parts.merges.emplace_back(*left_bytes, *right_bytes);
    }

    // "left right"
    void merge(const std::string& both) {
        const std::size_t blank = both.find(' ');
        if (blank == std::string::npos) wrong("the merge ", in_quotes(both), " names one token, expected two");
        merge(both.substr(0, blank), both.substr(blank + 1));
    }
};

}  // namespace causeway::model
