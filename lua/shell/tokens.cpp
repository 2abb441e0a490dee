// A scanner of Lua source that never fails: what is broken or open becomes a token too. Plain C++.
#include "lua/shell/tokens.hpp"

#include <algorithm>
#include <string>

namespace causeway::lua {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c); }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

class Scanner {
public:
    explicit Scanner(std::string_view source) : source_(source) {}

    Token next(std::size_t begin) {
        at_ = begin;
        if (starts("--")) return comment();
        if (peek() == '"' || peek() == '\'') return quoted();
        if (const int level = long_bracket(); level >= 0) return bracketed(Token::string, begin, level);
        if (is_digit(peek())) return {Token::number, begin, run([this] { return is_name(peek()) || peek() == '.'; })};
        if (is_name(peek())) return {Token::name, begin, run([this] { return is_name(peek()); })};
        return {Token::symbol, begin,
                begin + (starts("...") ? 3
                         : starts("..") || starts("==") || starts("~=") || starts("<=") || starts(">=") ||
                                 starts("::") || starts("//")
                             ? 2
                             : 1)};
    }

private:
    bool more() const { return at_ < source_.size(); }
    char peek(std::size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
    bool starts(std::string_view text) const { return source_.substr(at_, text.size()) == text; }

    template <class F>
    std::size_t run(F&& belongs) {
        while (more() && belongs()) ++at_;
        return at_;
    }

    // The level of a long bracket `[==[` that starts here, or -1.
    int long_bracket() const {
        if (peek() != '[') return -1;
        int level = 0;
        while (peek(static_cast<std::size_t>(level) + 1) == '=') ++level;
        return peek(static_cast<std::size_t>(level) + 1) == '[' ? level : -1;
    }

    Token bracketed(Token::Kind kind, std::size_t begin, int level) {
        const std::string close = "]" + std::string(static_cast<std::size_t>(level), '=') + "]";
        const std::size_t end = source_.find(close, at_ + close.size());
        if (end == std::string_view::npos) return {kind, begin, source_.size(), true};
        return {kind, begin, end + close.size()};
    }

    Token comment() {
        const std::size_t begin = at_;
        at_ += 2;
        if (const int level = long_bracket(); level >= 0) return bracketed(Token::comment, begin, level);
        const std::size_t end = run([this] { return peek() != '\n'; });
        return {Token::comment, begin, end, !more()};
    }

    Token quoted() {
        const std::size_t begin = at_;
        const char quote = peek();
        for (++at_; more() && peek() != quote; ++at_) {
            if (peek() == '\\') ++at_;
            else if (peek() == '\n') return {Token::string, begin, at_};
        }
        if (!more()) return {Token::string, begin, source_.size(), true};
        return {Token::string, begin, at_ + 1};
    }

    std::string_view source_;
    std::size_t at_ = 0;
};

}  // namespace

bool is_keyword(std::string_view word) {
    return std::find(std::begin(keywords), std::end(keywords), word) != std::end(keywords);
}

std::vector<Token> tokenize(std::string_view source) {
    std::vector<Token> tokens;
    Scanner scanner(source);
    for (std::size_t at = 0; at < source.size();) {
        if (is_space(source[at])) {
            ++at;
            continue;
        }
        tokens.push_back(scanner.next(at));
        at = tokens.back().end;
    }
    return tokens;
}

std::vector<Token> tokenize_without_comments(std::string_view source) {
    auto tokens = tokenize(source);
    std::erase_if(tokens, [](const Token& token) { return token.kind == Token::comment; });
    return tokens;
}

bool starts_line(const std::vector<Token>& tokens, std::size_t i, std::string_view source) {
    if (i == 0 || i >= tokens.size()) return true;
    const std::size_t before = tokens[i - 1].end;
    return source.substr(before, tokens[i].begin - before).find('\n') != std::string_view::npos;
}

}  // namespace causeway::lua
