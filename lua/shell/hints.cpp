// Rules over the tokens around the one at which Lua gave up.
#include "lua/shell/hints.hpp"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "lua/shell/tokens.hpp"

namespace causeway::lua {
namespace {

// The N of "chunk:N: ", the first number between colons; 0 where there is none.
std::size_t line_of(std::string_view message) {
    for (std::size_t at = message.find(':'); at != std::string_view::npos; at = message.find(':', at + 1)) {
        std::size_t n = 0, i = at + 1;
        for (; i < message.size() && message[i] >= '0' && message[i] <= '9' && n < 100000000; ++i)
            n = 10 * n + static_cast<std::size_t>(message[i] - '0');
        if (i > at + 1 && i < message.size() && message[i] == ':') return n;
    }
    return 0;
}

// The X of "... near 'X'", or "".
std::string_view token_of(std::string_view message) {
    const std::size_t at = message.rfind(" near '");
    if (at == std::string_view::npos || message.back() != '\'') return {};
    return message.substr(at + 7, message.size() - at - 8);
}

bool one_of(std::string_view word, std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

constexpr const char *of_loops = "a loop is written: for i = 1, 10 do ... end",
                     *of_list_loops = "a loop over a list is written: for i, x in ipairs(list) do ... end",
                     *of_while_loops = "a loop is written: while x > 0 do ... end",
                     *of_conditions = "a condition is written: if x > 0 then ... end";

// The tokens of a source without its comments, and questions about the place of one of them.
class Place {
public:
    explicit Place(std::string_view source, const KindOf& kind_of = {})
        : source_(source), kind_of_(kind_of), tokens_(tokenize_without_comments(source)) {
        std::size_t line = 1, at = 0;
        for (const Token& token : tokens_) {
            for (; at < token.begin; ++at) line += source[at] == '\n';
            lines_.push_back(line);
        }
    }

    std::size_t size() const { return tokens_.size(); }
    bool on_line(std::size_t i, std::size_t line) const { return lines_[i] == line; }

    // Positions outside are no token, "".
    std::string_view word(std::size_t i) const { return i < size() ? tokens_[i].text(source_) : std::string_view{}; }
    bool joins(std::size_t i) const {  // token i stands right behind the one before it
        return i > 0 && i < size() && tokens_[i - 1].end == tokens_[i].begin;
    }
    bool is_number(std::size_t i) const { return i < size() && tokens_[i].kind == Token::number; }
    bool is_string(std::size_t i) const { return i < size() && tokens_[i].kind == Token::string; }
    bool is_name(std::size_t i) const { return i < size() && tokens_[i].kind == Token::name && !is_keyword(word(i)); }
    // Whether a value ends with token i.
    bool ends_value(std::size_t i) const { return is_name(i) || is_number(i) || one_of(word(i), {")", "]", "}"}); }
    bool has(std::string_view name) const {
        for (std::size_t i = 0; i < size(); ++i) {
            if (word(i) == name) return true;
        }
        return false;
    }
    bool starts_line(std::size_t i) const { return lua::starts_line(tokens_, i, source_); }
    bool starts_statement(std::size_t i) const { return starts_line(i) || word(i - 1) == ";"; }

    // The bracket that is open at token i, or size().
    std::size_t open_bracket(std::size_t i) const {
        int closed = 0;
        while (i-- > 0) {
            if (one_of(word(i), {")", "]", "}"})) ++closed;
            else if (one_of(word(i), {"(", "[", "{"}) && closed-- == 0) return i;
        }
        return size();
    }
    // The text from token i up to token `end`.
    std::string text(std::size_t i, std::size_t end) const {
        if (i >= end || end > size()) return "";
        return std::string(source_.substr(tokens_[i].begin, tokens_[end - 1].end - tokens_[i].begin));
    }
    bool in_call(std::size_t i) const { return in(i, "("); }
    // Whether it is between the parentheses of `function f(` or `function(`.
    bool in_parameters(std::size_t i) const {
        std::size_t name = open_bracket(i);
        if (name == size() || word(name) != "(") return false;
        while (name > 0 && (is_name(name - 1) || one_of(word(name - 1), {".", ":"}))) --name;
        return name > 0 && word(name - 1) == "function";
    }
    bool in_index(std::size_t i) const { return in(i, "["); }
    // What the variable holds in whose index token i stands, l of l[1:2]: "table", "string" ..., "" where nothing is
    // known.
    std::string kind_of_indexed(std::size_t i) const {
        const std::size_t name = open_bracket(i) - 1;
        return kind_of_ && is_name(name) && !one_of(word(name - 1), {".", ":"}) ? kind_of_(word(name)) : "";
    }

    // Whether a block that a keyword opened is open at token i.
    bool in_block(std::size_t i) const {
        int depth = 0;
        for (std::size_t k = 0; k < i; ++k) {
            if (one_of(word(k), {"do", "then", "function", "repeat"})) ++depth;
            if (one_of(word(k), {"end", "until", "elseif"})) --depth;
        }
        return depth > 0;
    }

    // The last of these keywords before token i in its line, or size(). `until` ends the search.
    std::size_t keyword_before(std::size_t i, std::string_view keyword, std::string_view until) const {
        while (i > 0 && !starts_line(i)) {
            --i;
            if (word(i) == until) break;
            if (word(i) == keyword) return i;
        }
        return size();
    }

    // Whether the source is a name, or names joined by points and colons, with `?` or `??` behind it.
    bool asks_behind() const {
        std::size_t names = size();
        while (names > 0 && word(names - 1) == "?") --names;
        bool joined = names > 0 && names < size() && tokens_[0].begin == 0;
        for (std::size_t i = 0; i < names; ++i)
            joined = joined && (i % 2 == 0 ? is_name(i) : one_of(word(i), {".", ":"}));
        return joined;
    }

    // A quote right behind a value that no other quote ends: A' or (A * B)'.
    bool is_prime(std::size_t i) const {
        const std::string_view text = word(i);
        if (tokens_[i].kind != Token::string || text[0] != '\'' || !joins(i) || !ends_value(i - 1)) return false;
        const bool ends = text.size() > 1 && text.back() == '\'';
        return !ends && (text.size() == 1 || std::isalnum(static_cast<unsigned char>(text[1])) == 0);
    }

    // How the last block without `do` or `then` before the token `near` of this line is written, where it has a colon
    // with a blank behind it: `for i in range(3): print(i)` is the call of a method to Lua, which then waits for `do`.
    const char* block_with_colon(std::size_t line, std::string_view near) const {
        std::size_t begin = size();
        bool colon = false;
        for (std::size_t i = 0; i < size() && !(on_line(i, line) && word(i) == near); ++i) {
            if (one_of(word(i), {"for", "while", "if", "elseif"})) begin = i, colon = false;
            if (one_of(word(i), {"do", "then"})) begin = size();
            colon = colon || (begin < i && word(i) == ":" && joins(i) && i + 1 < size() && !joins(i + 1));
        }
        if (begin == size() || !colon) return nullptr;
        if (word(begin) != "for") return word(begin) == "while" ? of_while_loops : of_conditions;
        return word(begin + 2) == "in" && word(begin + 3) == "range" ? of_loops : of_list_loops;
    }

private:
    bool in(std::size_t i, std::string_view bracket) const {
        const std::size_t open = open_bracket(i);
        return open > 0 && open < size() && word(open) == bracket && ends_value(open - 1) && !is_number(open - 1);
    }

    std::string_view source_;
    KindOf kind_of_;
    std::vector<Token> tokens_;
    std::vector<std::size_t> lines_;  // of each token, from 1
};

// ---- the rules: what is at token i, if it is what Lua does not understand ----

// [x^2 for x in 1:5], {x^2 for x in l}, sum(x^2 for x in l)
const char* of_comprehensions(const Place& at, std::size_t i) {
    constexpr const char* of_functions = "map(function(x) return x^2 end, range(1, 5)), or a loop, makes such a list";
    // In a line of its own it begins a loop, behind a bracket that was left open.
    const std::size_t open = at.word(i) == "for" && !at.starts_line(i) ? at.open_bracket(i) : at.size();
    if (open < at.size() && at.word(open) == "{") return of_functions;
    const bool goes_over = one_of(at.word(i + 2), {"in", ","}) && (at.ends_value(i - 1) || at.is_string(i - 1));
    if (open < at.size() && at.word(open) == "(" && at.is_name(i + 1) && goes_over) return of_functions;
    if (at.word(i) != "[" || (i > 0 && at.ends_value(i - 1))) return nullptr;
    for (std::size_t k = i + 1; k < at.size() && at.word(k) != "]"; ++k) {
        if (at.word(k) == "for" && at.open_bracket(k) == i) return of_functions;
    }
    return nullptr;
}

const char* of_brackets(const Place& at, std::size_t i) {
    const bool list = at.word(i) == "[" && !(i > 0 && at.ends_value(i - 1));
    for (std::size_t k = i + 1; list && k < at.size() && at.word(k) != "]"; ++k) {
        if (at.word(k) != ";" || at.open_bracket(k) != i) continue;
        return at.is_number(i + 1) ? "a matrix is tensor{{1, 2}, {3, 4}}"
                                   : "cat(A, B, 1) puts A above B, cat(A, B, 2) beside it";
    }
    if (list) return "a list is {1, 2, 3}, a tensor of it tensor{1, 2, 3}";
    if (!one_of(at.word(i), {",", ":"}) || !at.in_index(i)) return nullptr;
    const std::string kind = at.kind_of_indexed(i);
    if (kind == "string") return "a part of a text is s:sub(1, 3), the first character s:sub(1, 1)";
    if (kind == "table")
        return at.word(i) == ":" ? "a part of a list is {table.unpack(l, 1, 2)}"
                                 : "an element of a list of lists is l[1][2]";
    return "a tensor is read as A(1, 2) or A({1, 3}, \":\") and set by A:set(x, 1, 2)";
}

// zeros((2, 3)), full((2, 3), 1), x = (1, 2)
const char* of_tuples(const Place& at, std::size_t i) {
    const std::size_t open = at.word(i) == "," ? at.open_bracket(i) : at.size();
    if (open == 0 || open == at.size() || at.word(open) != "(") return nullptr;
    const std::size_t call = at.open_bracket(open);
    const bool in_call = call > 0 && call < at.size() && at.word(call) == "(";
    if (in_call && at.word(call - 1) == "full") return "full((2, 3), x) is fill(x, 2, 3) here";
    if (in_call && one_of(at.word(call - 1), {"zeros", "ones", "rand", "randn", "fill", "reshape"}))
        return "sizes stand in no brackets of their own: zeros(2, 3)";
    if (one_of(at.word(open - 1), {"=", "return"})) return "a list is {1, 2, 3}, a tensor of it tensor{1, 2, 3}";
    return nullptr;
}

const char* of_arguments(const Place& at, std::size_t i) {
    const std::size_t name = at.word(i) == "=" ? i - 1 : at.word(i) == ";" ? i + 1 : at.size();
    if (!at.is_name(name) || at.word(name + 1) != "=" || !one_of(at.word(name - 1), {"(", ",", ";"})) return nullptr;
    if (at.in_parameters(i)) return "a default value is given inside of the function: x = x or 3";
    if (at.in_call(i) && at.word(name) == "dtype") return "the type stands last, in quotes: zeros(2, 3, \"Float64\")";
    const bool dimension = one_of(at.word(name), {"dim", "axis", "dims", "keepdim", "keepdims"});
    if (at.in_call(i) && dimension && at.word(at.open_bracket(name) - 1) == "normalize")
        return "l2norm(k) gives each row of k the length 1";
    if (at.in_call(i) && one_of(at.word(at.open_bracket(name) - 1), {"sort", "sorted"}) && at.word(name) == "key")
        return "a list is sorted by table.sort(l, function(a, b) return a.t < b.t end)";
    if (at.in_call(i) && dimension) return "a dimension is a plain number, from 1: mean(A, 1), A:sum(2)";
    return nullptr;
}

// print(x, sep=""), print(x, end="")
const char* of_print_options(const Place& at, std::size_t i) {
    const std::size_t name = at.word(i) == "=" ? i - 1 : i;
    if (at.word(name + 1) != "=" || !one_of(at.word(name), {"sep", "end", "file", "flush"})) return nullptr;
    const std::size_t open = at.open_bracket(name);
    if (!at.in_call(name) || at.word(open - 1) != "print" || !one_of(at.word(name - 1), {"(", ","})) return nullptr;
    return "print takes values alone; io.write(\"a\", x) adds no blanks and ends no line";
}

// The value of a named argument as Lua writes it.
std::string in_lua(const std::string& value) {
    if (value == "True" || value == "False") return value == "True" ? "true" : "false";
    return value == "None" ? "nil" : value;
}

// The call itself with its named arguments in a table at the end: plot(x, label="a") is plot(x, {label = "a"}).
std::string of_named_arguments(const Place& at, std::size_t i) {
    const std::size_t first = at.word(i) == "=" ? i - 1 : at.word(i) == ";" ? i + 1 : at.size();
    if (!at.is_name(first) || at.word(first + 1) != "=" || !one_of(at.word(first - 1), {"(", ",", ";"})) return "";
    if (!at.in_call(i) || at.in_parameters(i) || of_arguments(at, i) || of_print_options(at, i)) return "";
    const std::string general = "named arguments go in a table at the end: ";
    const std::size_t open = at.open_bracket(first);
    std::string named;
    std::size_t name = first;
    for (int depth = 0; name < at.size();) {
        std::size_t end = name;
        for (; end < at.size(); ++end) {
            const std::string_view word = at.word(end);
            if (depth == 0 && one_of(word, {",", ";", ")"})) break;
            depth += one_of(word, {"(", "[", "{"});
            depth -= one_of(word, {")", "]", "}"});
        }
        if (!at.is_name(name) || at.word(name + 1) != "=" || end == at.size())
            return general + "f(q, {method = \"fleet\"})";
        named += (named.empty() ? "" : ", ") + std::string(at.word(name)) + " = " + in_lua(at.text(name + 2, end));
        if (at.word(end) == ")") break;
        name = end + 1;
    }
    const std::string before = at.text(open + 1, first - 1), comma = before.empty() ? "" : ", ";
    const std::string_view function = at.word(open - 1);
    std::size_t callee = open - 1;  // s of s:plot(...), but not np of np.plot(...)
    if (callee > 1 && at.word(callee - 1) == ":" && at.is_name(callee - 2)) callee -= 2;
    const bool of_table = callee == open - 1 && one_of(function, {"plot", "sweep", "scan", "recurrence",
                                                                  "register_method", "crossover", "f"});
    const bool of_optimiser = one_of(function, {"Adam", "AdamW", "SGD", "adam", "sgd"});
    // Most calls have arguments that are told by their place, and none stands here.
    if (before.empty() && !of_table && !of_optimiser)
        return "named arguments go in a table at the end; ?" + std::string(function) + " shows what goes where";
    // An optimiser takes all in one table: Adam(W, lr=0.01) is adam{W, lr = 0.01}.
    if (of_optimiser)
        return (function.back() == 'D' || function == "sgd" ? "sgd{" : "adam{") + before + comma + named + "}";
    const std::string call = at.text(callee, open) + "(" + before + comma + "{" + named + "})";
    const bool short_enough = call.size() <= 100 && call.find('\n') == std::string::npos;
    return general + (short_enough ? call : "f(q, {method = \"fleet\"})");
}

// f(x) = x^2, def f(x):, lambda x: x^2, x -> x^2
const char* of_functions(const Place& at, std::size_t i) {
    if (at.word(i) == "=" && at.word(i - 1) == ")") {
        const std::size_t open = at.open_bracket(i - 1);
        bool names = open > 0 && at.word(open) == "(" && at.is_name(open - 1) && at.starts_statement(open - 1);
        for (std::size_t k = open + 1; names && k + 1 < i; ++k) names = at.is_name(k) || at.word(k) == ",";
        if (names) return "a function is written: function f(x) return x^2 end";
        const bool places = at.is_number(open + 1) || one_of(at.word(open + 1), {"{", "':'", "\":\""});
        if (open > 0 && at.word(open) == "(" && at.is_name(open - 1) && places)
            return "an element is set by A:set(x, 1, 2)";
    }
    if (at.is_name(i) && at.word(i - 1) == "def" && at.starts_statement(i - 1))
        return "a function is written: function f(x) return x^2 end";
    if (at.is_name(i) && at.word(i - 1) == "function" && !at.starts_statement(i - 1))
        return "a function without a name is written: function(x) return x^2 end";
    // function(x) x^2 end
    const std::size_t close = i - 2, open = at.word(close) == ")" ? at.open_bracket(close) : at.size();
    if (at.is_name(i - 1) && open > 0 && open < at.size() &&
        (at.word(open - 1) == "function" || at.word(open - 2) == "function"))
        return "a function gives its value by return: function(x) return x^2 end";
    const bool arrow = at.word(i) == ">" && at.word(i - 1) == "-" && at.joins(i);
    const std::size_t lambda = at.keyword_before(i, "lambda", ";");
    if (arrow || at.is_name(lambda + 1)) return "a function without a name is written: function(x) return x^2 end";
    return nullptr;
}

// for i = 1, 3 do i end, if x then 5 end: an expression in a block, which Lua takes for the beginning of a call.
std::string of_values(const Place& at, std::size_t i, std::string_view message) {
    std::size_t begin = i;
    const auto begins = [&](std::size_t k) {
        return at.starts_line(k) || one_of(at.word(k - 1), {"do", "then", "else", "repeat", ";", "end"});
    };
    const bool sign = i > 0 && at.ends_value(i - 1) && one_of(at.word(i), {"+", "*", "/", "^", "==", "..", "<", ">"});
    const bool unexpected = message.find(": unexpected symbol near ") != std::string_view::npos && !sign;
    if (unexpected && !(at.is_number(i) || at.is_string(i) || one_of(at.word(i), {"{", "-", "true", "false", "nil"})))
        return "";
    const bool behind_value = i > 0 && !at.is_name(i) && !at.is_number(i) && !at.is_string(i) && at.word(i) != "=";
    const bool stopped = sign || message.find(": syntax error near ") != std::string_view::npos;
    if (!unexpected && (!stopped || !behind_value)) return "";
    if (!unexpected) --begin;
    while (begin > 0 && !begins(begin)) --begin;
    if (begin == 0 || !at.in_block(begin) || !(unexpected || at.is_name(begin))) return "";
    std::size_t end = begin + 1;  // the expression goes up to the end of its line or block
    while (end < at.size() && !at.starts_line(end) && !one_of(at.word(end), {"end", "else", "elseif", "until", ";"}))
        ++end;
    const std::string found = at.text(begin, end), shown = found.size() > 20 ? "x" : found;
    return "a value alone is no statement in a block: print(" + shown + ") shows it";
}

// for (i = 0; i < 5; i++) {, if x == 5 {, while (x < 5) {
const char* of_braces(const Place& at, std::size_t i) {
    if (at.word(i) == "(" && at.word(i - 1) == "for") return of_loops;
    if (at.word(i) != "{") return nullptr;
    if (at.keyword_before(i, "if", "then") < at.size()) return of_conditions;
    return at.keyword_before(i, "while", "do") < at.size() ? of_while_loops : nullptr;
}

// {"a": 1}, {a: 1}, Dict("a" => 1)
const char* of_dictionaries(const Place& at, std::size_t i) {
    constexpr const char* of_names = "a table with names is d = {a = 1}, and d.a reads it";
    const std::size_t open = at.open_bracket(i);
    const bool braces = open < at.size() && at.word(open) == "{";
    if (braces && (at.word(i) == ":" || at.word(i - 1) == ":")) return of_names;
    return at.word(i) == "=" && at.word(i + 1) == ">" && at.joins(i + 1) && at.in_call(i) ? of_names : nullptr;
}

constexpr const char* of_errors = "errors are caught by ok, message = pcall(f, x)";

const char* of_colons(const Place& at, std::size_t i) {
    if (at.word(i) != ":") return nullptr;
    if (at.word(i - 1) == "try") return of_errors;
    if (const std::size_t in = at.keyword_before(i, "for", "do"); in < at.size()) {
        const std::size_t list = in + 3;  // for NAME in LIST, for NAME = FIRST
        if (at.is_name(list) && at.word(list) != "range" && at.word(in + 2) == "in") return of_list_loops;
        return of_loops;
    }
    if (at.keyword_before(i, "if", "then") < at.size() || at.keyword_before(i, "elseif", "then") < at.size())
        return of_conditions;
    if (at.keyword_before(i, "while", "do") < at.size()) return of_while_loops;
    if (at.in_call(i) && one_of(at.word(i - 1), {"(", ","}) && one_of(at.word(i + 1), {")", ","}))
        return "all rows, or columns, are \":\" in quotes: A(\":\", 2), A(1, \":\")";
    if (at.in_call(i) && (at.word(i + 1) == ")" || at.word(i + 1) == "," || at.is_number(i + 1)))
        return "rows 1 to 3 of A are A({1, 3}, \":\"), the numbers 1 to 3 range(1, 3)";
    if (at.is_number(i - 1) || at.is_number(i + 1)) return "the numbers from 1 to 10 are range(1, 10)";
    return nullptr;
}

// import numpy as np, from torch import nn, using Plots
std::string of_imports(const Place& at, std::size_t i) {
    if (!at.is_name(i) || !one_of(at.word(i - 1), {"import", "from", "using"}) || !at.starts_statement(i - 1))
        return "";
    if (at.word(i - 1) == "using")
        return "there is nothing to import: all of the library is here, methods() and ? list it";
    std::string name = "np.linspace";
    for (std::size_t k = i; at.word(i - 1) == "from" && k + 1 < at.size() && (k == i || !at.starts_line(k)); ++k) {
        const bool known = one_of(at.word(k + 1), {"nn", "functional", "numpy", "torch", "optim"});
        if (at.word(k) == "import" && at.is_name(k + 1) && !known) name = at.word(k + 1);
    }
    return "there is nothing to import; ?" + name + " says what it is called here";
}

// .* and the like, f.(x)
const char* of_dots(const Place& at, std::size_t i) {
    const std::size_t dot = at.word(i) == "." ? i : i - 1, sign = dot + 1;
    if (at.word(dot) != "." || !at.joins(sign) || dot == 0 || !at.ends_value(dot - 1)) return nullptr;
    if (at.word(sign) == "=") return "all elements are set by A:fill(3)";
    if (at.word(sign) == "*") return "times(A, B) is the product of corresponding elements";
    if (at.word(sign) == "^") return "pow(A, x) is the power of each element";
    if (one_of(at.word(sign), {"<", ">", "==", "<=", ">=", "~="}))
        return "gt(A, B), ge, lt, le, eq and ne compare element by element: all(gt(A, 0))";
    if (one_of(at.word(sign), {"+", "-", "/"})) return "+, - and / work element by element as they are";
    if (at.word(sign) == "(") return "exp(A) works on every element, map(f, A) with a function of your own";
    return nullptr;
}

// x if a else b, a ? x : b
const char* of_choices(const Place& at, std::size_t i) {
    const bool question = at.word(i) == "?" && i > 0 && at.ends_value(i - 1) && !at.starts_line(i);
    const bool expression = at.word(i) == "else" && at.keyword_before(i, "if", "then") < at.size();
    const bool begun =
        at.word(i) == "if" && i > 0 && !at.starts_line(i) && (at.ends_value(i - 1) || at.is_string(i - 1));
    return question || expression || begun ? "one of two values is chosen by x > 2 and 1 or 0" : nullptr;
}

// A(end, 1), A({2, end}), A(2:end): Lua ends nothing here, and an entry that goes on with `end` is none of these.
const char* of_ends(const Place& at, std::size_t i) {
    constexpr const char* of_ranges = "up to the last row: A({2, size(A, 1)}, \":\"); of a vector: x({2, #x})";
    if (at.word(i) == ":" && at.word(i + 1) == "end" && at.in_call(i)) return of_ranges;
    if (at.word(i) != "end") return nullptr;
    if (at.in_index(i) && at.word(i - 1) == "[") return "the last of a list is l[#l], of a vector x(#x)";
    const std::size_t open = at.open_bracket(i);
    const bool range = open < at.size() && at.word(open) == "{" && at.word(i - 1) == ",";
    if (range && one_of(at.word(i + 1), {"}", "-", ","})) return of_ranges;
    if (!at.in_call(i) || !one_of(at.word(i - 1), {"(", ","})) return nullptr;
    return "the last row of A is A(size(A, 1), \":\"), the last of a vector x(#x)";
}

// let x = 3, int x = 3, x: int = 3, a = b = 3
const char* of_declarations(const Place& at, std::size_t i) {
    const bool two_names = at.is_name(i) && at.is_name(i - 1) && at.word(i + 1) == "=" && at.starts_statement(i - 1);
    const bool typed = at.word(i) == "=" && at.is_name(i - 1) && at.word(i - 2) == ":" && at.is_name(i - 3) &&
                       at.starts_statement(i - 3);
    const bool chain = at.word(i) == "=" && at.word(i + 1) != "=" && at.is_name(i - 1) && at.word(i - 2) == "=" &&
                       at.is_name(i - 3) && at.starts_statement(i - 3);
    if (chain) return "each variable is set by its own value: a, b = 3, 3";
    return two_names || typed ? "a variable is set by x = 3; local x = 3 is one of a function or a block" : nullptr;
}

// print A, print "x =", x, print not x
const char* of_prints(const Place& at, std::size_t i) {
    const auto begins = [&](std::size_t k) {
        return at.word(k) == "print" &&
               (at.starts_statement(k) || one_of(at.word(k - 1), {"do", "then", "else", "repeat"}));
    };
    const bool value = at.is_name(i) || at.is_number(i) || one_of(at.word(i), {"nil", "true", "false", "not", "#"});
    const bool alone = value && i > 0 && begins(i - 1);
    const bool list = at.word(i) == "," && i > 1 && at.is_string(i - 1) && begins(i - 2);
    return alone || list ? "print is called: print(x), print(\"x =\", x)" : nullptr;
}

// 1 in l, if x in l then
const char* of_membership(const Place& at, std::size_t i) {
    if (at.word(i) != "in" || i == 0 || !(at.ends_value(i - 1) || at.is_string(i - 1))) return nullptr;
    if (at.keyword_before(i, "for", "do") < at.size()) return nullptr;
    return "d[x] ~= nil: a table has the name x; any(eq(l, x)): a list the number x";
}

// load q.npy
std::string of_loads(const Place& at, std::size_t i) {
    while (i > 0 && !at.starts_line(i)) --i;
    const std::size_t first = i + 1;
    if (at.word(i) != "load" || at.starts_line(first) || at.joins(first)) return "";
    if (!at.is_name(first) && !one_of(at.word(first), {".", "..", "/", "~"})) return "";
    std::size_t end = first + 1;
    while (at.joins(end) && at.word(end) != ";") ++end;
    const std::string path = at.text(first, end);
    if (!at.starts_line(end) && at.word(end) != ";") return "";  // two words
    if (path.find_first_of("./") == std::string::npos || path.find_first_of("\"'(){}") != std::string::npos) return "";
    return "a file is read by load(\"" + (path.size() <= 40 ? path : "q.npy") + "\")";
}

// del x, assert x, raise E, class A, x is None
const char* of_words(const Place& at, std::size_t i) {
    if (at.word(i) == "is" && i > 0 && at.ends_value(i - 1)) return "x is None is written x == nil";
    if (!(at.is_name(i) || at.is_number(i)) || !at.starts_statement(i - 1)) return nullptr;
    const std::string_view word = at.word(i - 1);
    if (one_of(word, {"help", "doc", "man"})) return "the page of a function is ?name, as ?zeros";
    if (word == "del") return "x = nil forgets x";
    if (word == "try") return of_errors;
    if (one_of(word, {"raise", "throw"})) return "error(\"a sentence\") raises an error";
    if (one_of(word, {"switch", "match"})) return "if x == 1 then ... elseif x == 2 then ... end";
    if (one_of(word, {"class", "struct"})) return "what belongs together is a table: p = {a = 1}, read as p.a";
    return word == "assert" ? "assert is called: assert(isapprox(x, y))" : nullptr;
}

// "abc"[1], "abc".upper(): a text is no value that something may stand behind, but in parentheses.
const char* of_literals(const Place& at, std::size_t i) {
    if (!at.is_string(i) || !at.joins(i + 1)) return nullptr;
    if (at.word(i + 1) == "[") return "a part of a text is s:sub(1, 3), the first character s:sub(1, 1)";
    const bool method = at.word(i + 1) == ":" || (at.word(i + 1) == "." && at.is_name(i + 2));
    return method ? "a method of a text: (\"abc\"):upper()" : nullptr;
}

// x:repeat(2), repeat(x, 2): a keyword of Lua where a name is to stand.
const char* of_keywords(const Place& at, std::size_t i) {
    constexpr const char* of_copies = "copies of A below each other are cat(A, A, 1)";
    const std::size_t open = at.word(i) == "," ? at.open_bracket(i) : at.size();
    if (open > 0 && at.word(open) == "(" && at.word(open - 1) == "repeat") return of_copies;
    if (at.word(i) != "repeat") return nullptr;
    if (at.word(i + 1) == "=") return "repeat is a word of Lua; the options are repeats and samples";
    return one_of(at.word(i - 1), {".", ":"}) || at.word(i + 1) == "(" ? of_copies : nullptr;
}

// with open("a") as f:
const char* of_contexts(const Place& at, std::size_t i) {
    if (at.word(i - 1) != "with" || !at.starts_statement(i - 1)) return nullptr;
    if (at.word(i) == "open") return "the lines of a file: for line in io.lines(\"a\") do ... end";
    return "there is no with: do ... end is a block";
}

constexpr const char* of_the_system = ";ls at the prompt is a command of the system, ;cd FOLDER moves";

bool is_command(std::string_view word) {
    return one_of(word, {"cd", "ls", "ll", "pwd", "mkdir", "rm", "cp", "mv", "cat", "less", "git", "pip", "python"});
}

// cd results: two words, or a path.
const char* of_commands(const Place& at, std::size_t i) {
    while (i > 0 && !at.starts_line(i)) --i;
    const std::string_view next = at.word(i + 1);
    const bool calls = at.starts_line(i + 1) || at.is_string(i + 1) || one_of(next, {"(", "{", "=", ",", ":", "[", ""});
    const bool path = one_of(next, {".", ".."}) && !at.joins(i + 1);
    return is_command(at.word(i)) && (path || (!calls && next != ".")) ? of_the_system : nullptr;
}

const char* of_signs(const Place& at, std::size_t i) {
    const std::string_view sign = at.word(i), before = at.word(i - 1);
    if (sign == "!" && at.starts_line(i) && is_command(at.word(i + 1))) return of_the_system;
    if (sign == "!" && at.joins(i) && at.is_name(i - 1) && at.word(i + 1) == "(")
        return one_of(before, {"push", "append"}) ? "table.insert(l, x) appends x to a list"
               : before == "seed"                 ? "seed(0) begins the random numbers anew"
                                                  : "what changes its tensor ends in _ here: x:exp_()";
    if (sign == "|" && at.word(i + 1) == ">" && at.joins(i + 1)) return "x |> f is written f(x)";
    if (sign == "//" && at.starts_line(i)) return "a comment begins with --";
    if (sign == "%" && at.starts_line(i)) return "time is measured by @btime f(x), ;ls is a command of the system";
    if (sign == "!") return at.word(i + 1) == "=" && at.joins(i + 1) ? "not equal is written ~=" : "! is written not";
    if (sign == "&" && before == "&" && at.joins(i)) return "&& is written and";
    // btime(|| f()): where no value stands before them, both begin a function.
    const std::size_t bar = sign == "|" && before == "|" ? i - 1 : i;
    if (at.word(bar) == "|" && at.word(bar + 1) == "|" && at.joins(bar + 1) &&
        one_of(at.word(bar - 1), {"(", ",", "="}))
        return "a function without arguments is written: function() return f() end";
    if (sign == "|" && before == "|" && at.joins(i)) return "|| is written or";
    // f(*l), f(**d), and f(l...) of Julia
    const bool starred = sign == "*" && one_of(before, {"(", ","}) &&
                         (at.is_name(i + 1) || one_of(at.word(i + 1), {"*", "(", "[", "{"}));
    const bool splatted = sign == "..." && at.joins(i) && at.ends_value(i - 1);
    if ((starred || splatted) && at.in_call(i) && !at.in_parameters(i)) {
        if (at.word(i + 1) == "*") return "named arguments are a table at the end: f(q, {causal = true}), f(q, d)";
        return "the elements of a list are the arguments of f(table.unpack(l))";
    }
    if (sign == "*" && before == "*" && at.joins(i)) return "a power is written x^2; of a tensor, pow(A, 2)";
    if (sign == "#") return "a comment begins with --";
    if (sign == "$") return "a name stands without $: @btime f(q, k, v)";
    if (sign == "\\") return "inv(A) * b solves A x = b";
    if (sign == "+" && before == "+" && at.joins(i)) return "x++ is written x = x + 1";
    const std::size_t first = sign == "=" ? i - 1 : i;
    if (one_of(at.word(first), {"+", "-", "*", "/"}) && at.word(first + 1) == "=" && at.joins(first + 1) &&
        at.ends_value(first - 1))
        return "x += 1 is written x = x + 1";
    return nullptr;
}

const char* of_at(const Place& at, std::size_t i) {
    const bool macro = one_of(at.word(i + 1), {"time", "btime", "show"});
    if (at.word(i) == "@" && !macro && i > 0 && at.ends_value(i - 1) && !at.starts_line(i))
        return "A * B is the product of matrices";
    if (at.word(i) == "@" && macro && !at.starts_line(i) && at.in_block(i))
        return "@time and @btime begin a line; inside: btime(function() return f(x) end)";
    const bool placed = at.starts_line(i) || (macro && one_of(at.word(i - 1), {"=", ";", "return"}));
    if (one_of(at.word(i), {"@", "?"}) && placed)
        return "@time, @btime, @show, ?name and ;command are for the prompt and for -e";
    return nullptr;
}

}  // namespace

namespace {

// What a sign that is not ASCII means, where the source has one outside of its strings and comments.
std::string of_other_signs(std::string_view source) {
    constexpr std::pair<std::string_view, const char*> signs[] = {
        {"≈", "A ≈ B is isapprox(A, B)"},
        {"≤", "a ≤ b is a <= b"},
        {"≥", "a ≥ b is a >= b"},
        {"≠", "a ≠ b is a ~= b"},
        {"√", "√x is sqrt(x)"},
        {"π", "π is pi"},
        {"ℯ", "ℯ is exp(1)"},
        {"∞", "∞ is math.huge"},
        {"⊙", "A ⊙ B is times(A, B)"},
        {"⋅", "a ⋅ b is dot(a, b)"},
        {"×", "A × B is A * B of matrices, times(A, B) of elements"},
        {"∈", "for x ∈ list is written: for i, x in ipairs(list) do ... end"}};
    std::string code;  // without strings and comments
    for (const Token& token : tokenize_without_comments(source)) {
        if (token.kind != Token::string) code += token.text(source);
    }
    for (const auto& [sign, meaning] : signs) {
        if (code.find(sign) != std::string::npos) return meaning;
    }
    return "outside of strings Lua knows only ASCII: gamma, not \u03b3";
}

}  // namespace

std::string else_if_hint(std::string_view source, std::string_view message) {
    if (!has_else_if(source) || message.find("'end' expected") == std::string_view::npos) return "";
    return "hint: else if has an end of its own; elseif, one word, needs none";
}

bool has_else_if(std::string_view source) {
    const Place at(source);
    for (std::size_t i = 1; i < at.size(); ++i) {
        if (at.word(i) == "if" && at.word(i - 1) == "else" && !at.starts_line(i)) return true;
    }
    return false;
}

std::string syntax_hint(std::string_view source, std::string_view message, const KindOf& kind_of) {
    const std::size_t line = line_of(message);
    const std::string_view near = token_of(message);
    const std::string hint = "hint: ";
    const bool at_end = message.ends_with(" near <eof>");
    if (near.starts_with("<\\")) return hint + of_other_signs(source);
    const Place place(source, kind_of);
    if (near == "?" && place.asks_behind()) {  // f?, as IPython has it
        std::string_view name = source.substr(0, source.find('?'));
        while (std::isspace(static_cast<unsigned char>(name.back())) != 0) name.remove_suffix(1);
        return hint + "help stands behind the sign: ?" + std::string(name);
    }
    if (at_end && place.size() > 0) {  // Lua waits for the name of a method
        if (const char* found = of_colons(place, place.size() - 1)) return hint + found;
        if (const char* found = of_commands(place, place.size() - 1)) return hint + found;
        const bool block = place.word(place.size() - 1) == "}";  // if (x > 0) { f() }, to Lua the call of (x > 0)
        const std::size_t open = block ? place.open_bracket(place.size() - 1) : place.size();
        if (block && place.word(open - 1) == ")") {
            if (const char* found = of_braces(place, open)) return hint + found;
        }
        for (std::size_t i = 0; i < place.size(); ++i) {  // x = 3 // two words
            if (place.word(i) == "//" && place.is_name(i + 1) && place.is_name(i + 2))
                return hint + "a comment begins with --";
        }
    }
    for (const char* missing : {": 'do' expected near ", ": 'then' expected near "}) {
        const char* found = message.find(missing) == message.npos ? nullptr : place.block_with_colon(line, near);
        if (found) return hint + found;
    }
    // A:mean, as a property is read elsewhere; nobody parts a method from its arguments by the end of a line.
    const bool ends = at_end || one_of(near, {")", ",", ";", "}", "]"});
    if (place.word(0) == "try" && place.word(1) == ":") return hint + of_errors;  // try: x, to Lua a method of try
    if (message.find(": function arguments expected near ") != std::string_view::npos && ends && !place.has("lambda"))
        return hint + "a method is called with its arguments: A:mean(), A:sum(2)";
    const bool malformed = message.find(": malformed number near ") != std::string_view::npos;
    if (malformed && near.find('_') != std::string_view::npos) return hint + "1_000 is written 1000";
    if (malformed && !near.empty() && std::isalpha(static_cast<unsigned char>(near.back())) != 0)
        return hint + "2x is written 2 * x";
    const bool unfinished = message.find(": unfinished string near ") != std::string_view::npos;
    for (std::size_t i = 0; i < place.size(); ++i) {
        if (!place.on_line(i, line)) continue;
        if (unfinished && place.is_prime(i)) return hint + "A:t() is the transpose of A";
        if (unfinished || place.word(i) != near) continue;
        for (const auto rule : {of_named_arguments, of_imports, of_loads}) {
            if (const std::string found = rule(place, i); !found.empty()) return hint + found;
        }
        for (const auto rule :
             {of_comprehensions, of_literals,     of_brackets, of_tuples,     of_arguments,    of_print_options,
              of_functions,      of_dots,         of_ends,     of_braces,     of_dictionaries, of_colons,
              of_choices,        of_declarations, of_prints,   of_membership, of_words,        of_keywords,
              of_contexts,       of_commands,     of_signs,    of_at}) {
            if (const char* found = rule(place, i)) return hint + found;
        }
        if (const std::string found = of_values(place, i, message); !found.empty()) return hint + found;
    }
    return "";
}

namespace {

// Lines `first` to `last` of a text, counted from 1.
std::string lines_of(std::string_view text, std::size_t first, std::size_t last) {
    std::size_t line = 1, begin = 0;
    for (; line < first && begin < text.size(); ++line) begin = std::min(text.find('\n', begin), text.size()) + 1;
    std::size_t end = begin;
    for (; line <= last && end < text.size(); ++line) end = std::min(text.find('\n', end), text.size()) + 1;
    if (begin >= text.size()) return "";
    return std::string(text.substr(begin, std::min(end, text.size()) - begin));
}

}  // namespace

std::string script_hint(std::string_view source, std::string_view message,
                        const std::function<bool(const std::string&)>& compiles) {
    if (std::string hint = syntax_hint(source, message); !hint.empty()) return hint;
    if (std::string hint = else_if_hint(source, message); !hint.empty()) return hint;
    const std::size_t stop = line_of(message);
    for (std::size_t line = stop; line > 0 && line + 1 >= stop; --line) {
        std::string expression = lines_of(source, line, line);
        while (!expression.empty() && std::isspace(static_cast<unsigned char>(expression.back())) != 0)
            expression.pop_back();
        if (tokenize_without_comments(expression).empty() || !compiles("return " + expression)) continue;
        if (!compiles(lines_of(source, 1, line - 1)) || compiles(expression)) continue;
        return "hint: only the prompt shows values: in a script, print(x) or display(x)";
    }
    return "";
}

bool has_list_in_long_brackets(std::string_view source) {
    for (const Token& token : tokenize_without_comments(source)) {
        const std::string_view text = token.text(source);
        if (token.kind != Token::string || !text.starts_with("[[") || !text.ends_with("]]")) continue;
        const bool digits = text.find_first_of("0123456789") != std::string_view::npos;
        const bool plain = text.find_first_not_of("0123456789.,+-eE[] \t\r\n") == std::string_view::npos;
        const bool rows = text.find(',') != std::string_view::npos;
        if (digits && plain && rows) return true;
    }
    return false;
}

}  // namespace causeway::lua
