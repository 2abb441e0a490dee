#include "core/model/split.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/base/error.hpp"
#include "core/base/utf8.hpp"

namespace causeway::model {
namespace {

// The expressions as tokenizer.json and llama.cpp spell them. Each is linear: what may be given back is a run of white
// space, once.
constexpr const char* gpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* llama3 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                               R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* qwen2 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                              R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* digit = R"(\p{N})";
constexpr const char* digits = R"(\p{N}+)";

struct Pre {
    const char* name;
    std::vector<const char*> expressions;
};

const std::vector<Pre>& pres() {
    static const std::vector<Pre> list{
        {"gpt-2", {gpt2}},         {"llama-bpe", {llama3}},      {"llama3", {llama3}},
        {"llama-v3", {llama3}},    {"qwen2", {qwen2}},           {"deepseek-r1-qwen", {qwen2}},
        {"smollm", {digit, gpt2}}, {"starcoder", {digit, gpt2}}, {"refact", {digit, gpt2}},
    };
    return list;
}

// PCRE2 takes U+180E for white space, as Unicode did until 2013; the tokenizers take Unicode's property. So \s and \S
// are spelled out.
std::string without_white_space_classes(std::string_view expression) {
    const std::string white = R"(\t-\r\x{85}\p{Z})";
    std::string out;
    bool in_class = false;
    for (std::size_t i = 0; i < expression.size(); ++i) {
        const char c = expression[i];
        if (c == '[') in_class = true;
        if (c == ']') in_class = false;
        if (c != '\\') {
            out += c;
            continue;
        }
        const char letter = expression[++i];
        if (letter == 's') out += in_class ? white : "[" + white + "]";
        else if (letter == 'S') out += "[^" + white + "]";
        else (out += c) += letter;
    }
    return out;
}

std::string text_of_code(int code) {
    PCRE2_UCHAR text[256] = {};
    pcre2_get_error_message(code, text, sizeof text);
    return reinterpret_cast<const char*>(text);
}

// What a match needs beside the compiled expression; one for each thread.
struct Scratch {
    pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
    pcre2_match_context* context = pcre2_match_context_create(nullptr);
    pcre2_jit_stack* stack = pcre2_jit_stack_create(std::size_t{32} << 10, std::size_t{1} << 20, nullptr);

    Scratch() {
        if (!data || !context) throw std::bad_alloc();
        // The limits are for expressions of strangers; ours are known, and a word may be as long as the text.
        pcre2_set_match_limit(context, UINT32_MAX);
        pcre2_jit_stack_assign(context, nullptr, stack);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() {
        pcre2_match_context_free(context);
        pcre2_match_data_free(data);
        pcre2_jit_stack_free(stack);
    }
};

}  // namespace

struct Splitter::Cut {
    explicit Cut(const char* expression) {
        const std::string spelled = without_white_space_classes(expression);
        int code = 0;
        PCRE2_SIZE at = 0;
        compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(), PCRE2_UTF | PCRE2_UCP,
                                 &code, &at, nullptr);
        if (!compiled) fail_as<SystemError>("PCRE2 cannot compile ", spelled, ": ", text_of_code(code), " at ", at);
        // Without a just-in-time compiler the same matches come more slowly.
        pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
    }
    Cut(const Cut&) = delete;
    Cut& operator=(const Cut&) = delete;
    ~Cut() { pcre2_code_free(compiled); }

    // The first match in the text from `at` on; none: {size, size}.
    std::pair<std::size_t, std::size_t> match(std::string_view text, std::size_t at) const {
        thread_local const Scratch scratch;
        const int code = pcre2_match(compiled, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                     PCRE2_NO_UTF_CHECK, scratch.data, scratch.context);
        if (code == PCRE2_ERROR_NOMATCH) return {text.size(), text.size()};
        if (code < 0) fail_as<SystemError>("PCRE2 cannot cut a text into words: ", text_of_code(code));
        const PCRE2_SIZE* range = pcre2_get_ovector_pointer(scratch.data);
        return {range[0], range[1]};
    }

    pcre2_code* compiled = nullptr;
};

std::optional<Splitter> Splitter::named(std::string_view pre) {
    for (const auto& [name, expressions] : pres()) {
        if (pre != name) continue;
        Splitter splitter;
        for (const char* expression : expressions) splitter.add(expression);
        return splitter;
    }
    return std::nullopt;
}

std::vector<std::string> Splitter::names() {
    std::vector<std::string> out;
    for (const auto& pre : pres()) out.emplace_back(pre.name);
    return out;
}

bool Splitter::add(std::string_view expression) {
    for (const char* known : {gpt2, llama3, qwen2, digit, digits}) {
        if (expression != known) continue;
        cuts_.push_back(std::make_shared<const Cut>(known));
        return true;
    }
    return false;
}

void Splitter::add_digits(bool one_by_one) { add(one_by_one ? digit : digits); }

void Splitter::add_gpt2() { add(gpt2); }

void Splitter::cut(std::string_view text, std::size_t step, const std::function<void(std::string_view)>& word) const {
    if (step == cuts_.size()) return word(text);
    for (std::size_t at = 0; at < text.size();) {
        const auto [begin, end] = cuts_[step]->match(text, at);
        if (begin > at) cut(text.substr(at, begin - at), step + 1, word);
        if (end > begin) cut(text.substr(begin, end - begin), step + 1, word);
        at = end;
    }
}

void Splitter::split(std::string_view text, const std::function<void(std::string_view)>& word) const {
    while (!text.empty()) {
        const std::size_t good = utf8_prefix(text);
        if (good > 0) cut(text.substr(0, good), 0, word);
        text.remove_prefix(good);
        std::size_t bad = 0;
        while (bad < text.size() && utf8_character(text.substr(bad, 4)) == 0) ++bad;
        if (bad > 0) word(text.substr(0, bad));
        text.remove_prefix(bad);
    }
}

}  // namespace causeway::model
