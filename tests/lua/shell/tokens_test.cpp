#include "lua/shell/tokens.hpp"

#include <string>

#include "tests/catch.hpp"

using namespace causeway::lua;

namespace {

// The tokens, separated by bars; an open one ends in an ellipsis.
std::string cut(const std::string& source) {
    std::string text;
    for (const Token& token : tokenize(source)) {
        if (!text.empty()) text += "|";
        text += token.text(source);
        if (token.open) text += "…";
    }
    return text;
}

}  // namespace

TEST_CASE("Lua text is cut into tokens", "[lua][tokens]") {
    CHECK(cut("") == "");
    CHECK(cut("x = y+1.5e3") == "x|=|y|+|1.5e3");
    CHECK(cut("a.b:c(...)..d // e ~= f") == "a|.|b|:|c|(|...|)|..|d|//|e|~=|f");
    CHECK(cut("f'a\\'b' \"c\"") == "f|'a\\'b'|\"c\"");
    CHECK(cut("[[a]] [==[b]]]==] t[1]") == "[[a]]|[==[b]]]==]|t|[|1|]");
    CHECK(cut("x -- note\ny --[[ long\n]] z") == "x|-- note|y|--[[ long\n]]|z");
}

TEST_CASE("strings and comments may be open at the end", "[lua][tokens]") {
    CHECK(cut("f('ab") == "f|(|'ab…");
    CHECK(cut("'ab\\") == "'ab\\…");
    CHECK(cut("'ab\nc") == "'ab|c");
    CHECK(cut("[[a]") == "[[a]…");
    CHECK(cut("x -- y") == "x|-- y…");
    CHECK(cut("--[[ y") == "--[[ y…");
    CHECK(cut("\"\\") == "\"\\…");
}

TEST_CASE("a line begins with its first token, and nothing goes on behind the last one", "[lua][tokens]") {
    const std::string source = "a b\n\nc -- d\ne";
    const auto tokens = tokenize_without_comments(source);
    REQUIRE(tokens.size() == 4);
    CHECK(starts_line(tokens, 0, source));
    CHECK_FALSE(starts_line(tokens, 1, source));
    CHECK(starts_line(tokens, 2, source));
    CHECK(starts_line(tokens, 3, source));
    CHECK(starts_line(tokens, 4, source));
    CHECK(starts_line({}, 0, ""));
}
