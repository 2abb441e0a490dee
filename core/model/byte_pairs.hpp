// Byte-pair encoding of one word: its bytes are tokens, and of the pairs of neighbours that the vocabulary joins, the
// one that was learned first is joined, from left to right, until there is none.
// Source: Sennrich, Haddow, Birch 2016; on bytes as in GPT-2.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace causeway::model {

using Token = std::int32_t;

class BytePairs {
public:
    // The token of each byte, -1 where the vocabulary has none.
    std::array<Token, 256> byte_tokens;

    // A byte without a token becomes this one, or, where there is none, is dropped.
    std::optional<Token> unknown;
    bool fuse_unknown = false;  // a run of such bytes is one token

    BytePairs() { byte_tokens.fill(-1); }

    // Makes room for so many joins.
    void reserve(std::size_t joins);

    // Left and right are joined to `whole`; what is added first goes first, and of a pair added twice the last counts.
    void add(Token left, Token right, Token whole);

    // Appends the tokens of the word. O(n log n). Returns how many of its bytes have no token.
    std::size_t append(std::string_view word, std::vector<Token>& out) const;

private:
    struct Join {
        std::uint64_t pair;
        std::uint32_t rank;
        Token whole;
    };

    const Join* find(Token left, Token right) const;
    std::size_t place(std::uint64_t pair) const;  // of the pair, or the free one for it
    void grow(std::size_t places);

    std::vector<Join> joins_;  // a hash table whose free places have whole = -1
    std::size_t used_ = 0;
    std::uint32_t next_rank_ = 0;
};

}  // namespace causeway::model
