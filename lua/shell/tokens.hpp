// Lua source text cut into tokens: enough for the prompt (is the value hidden?) and for completion (what is the cursor
// in?).
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace causeway::lua {

struct Token {
    enum Kind { name, number, string, comment, symbol };
    Kind kind;
    std::size_t begin, end;  // bytes of the source
    bool open = false;       // a string or comment that the source ends in

    std::string_view text(std::string_view source) const { return source.substr(begin, end - begin); }
};

// The words of the language, which cannot be names; the tokens call them names too.
inline constexpr std::string_view keywords[] = {"and",      "break",  "do",   "else", "elseif", "end",  "false", "for",
                                                "function", "goto",   "if",   "in",   "local",  "nil",  "not",   "or",
                                                "repeat",   "return", "then", "true", "until",  "while"};
bool is_keyword(std::string_view word);

// The tokens in order, comments included. Never fails: a byte that starts nothing is a symbol. O(length).
std::vector<Token> tokenize(std::string_view source);
std::vector<Token> tokenize_without_comments(std::string_view source);

// Whether token i is the first one of its line; behind the last token, where no line goes on, it is.
bool starts_line(const std::vector<Token>& tokens, std::size_t i, std::string_view source);

}  // namespace causeway::lua
