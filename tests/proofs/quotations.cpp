#include "tests/proofs/quotations.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <regex>
#include <sstream>
#include <string_view>
#include <utility>

namespace causeway::proofs {
namespace {

constexpr std::string_view ellipsis = "…";
constexpr std::array<std::string_view, 5> documents{"fleet", "leet", "gates", "tpu", "tree"};

bool letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::string replaced(std::string text, std::string_view what, std::string_view by) {
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
        text.replace(at, what.size(), by);
    return text;
}

std::vector<std::string> split(const std::string& text, std::string_view at) {
    std::vector<std::string> parts;
    std::size_t from = 0;
    for (std::size_t to; (to = text.find(at, from)) != std::string::npos; from = to + at.size())
        parts.push_back(text.substr(from, to - from));
    parts.push_back(text.substr(from));
    return parts;
}

std::vector<std::string> words(const std::string& text) {
    std::istringstream in(text);
    std::vector<std::string> out;
    for (std::string word; in >> word;) out.push_back(word);
    return out;
}

// TeX without its commands, braces and signs of mathematics; what a command shows is kept.
std::string without_tex(const std::string& text) {
    static const std::map<std::string, std::string, std::less<>> shown{
        {"times", "×"}, {"le", "≤"},    {"leq", "≤"},   {"geq", "≥"},   {"ge", "≥"},    {"in", "∈"},
        {"odot", "⊙"},  {"sim", "~"},   {"pm", "±"},    {"top", "T"},   {"log", "log"}, {"cdot", "·"},
        {"ldots", "…"}, {"cdots", "…"}, {"dots", "…"},  {"zeta", "ζ"},  {"Gamma", "Γ"}, {"lambda", "λ"},
        {"alpha", "α"}, {"beta", "β"},  {"gamma", "γ"}, {"tilde", "~"}, {"hat", "^"}};
    static const std::regex fraction(R"(\\frac\{([^{}]*)\}\{([^{}]*)\})");
    const std::string in = std::regex_replace(text, fraction, "$1/$2");
    std::string out;
    for (std::size_t at = 0; at < in.size(); ++at) {
        if (std::string_view("${}*`").find(in[at]) != std::string_view::npos) continue;
        if (in[at] != '\\' || at + 1 == in.size()) {
            out += in[at];
            continue;
        }
        std::size_t end = at + 1;
        while (end < in.size() && letter(in[end])) ++end;
        if (end == at + 1) {  // \% is %, the rest are delimiters and blanks
            if (std::string_view("%_&#").find(in[end]) != std::string_view::npos) out += in[end];
            at = end;
            continue;
        }
        const auto found = shown.find(std::string_view(in).substr(at + 1, end - at - 1));
        if (found != shown.end()) out += found->second;
        while (end < in.size() && blank(in[end])) ++end;
        at = end - 1;
    }
    return out;
}

// Raised figures and letters with a mark, one way of writing each.
std::string one_spelling(std::string text) {
    static const std::pair<std::string_view, std::string_view> same[] = {
        {"’", "'"},  {"‘", "'"},   {"“", "'"},  {"”", "'"},  {"\"", "'"}, {"–", "-"},
        {"—", "-"},  {"⁰", "^0"},  {"¹", "^1"}, {"²", "^2"}, {"³", "^3"}, {"⁴", "^4"},
        {"⁵", "^5"}, {"⁻^", "^-"}, {"ᵀ", "^T"}, {"Ã", "~A"}, {"â", "^a"}, {"b̂", "^b"}};
    for (const auto& [from, to] : same) text = replaced(std::move(text), from, to);
    return text;
}

// No hyphen between letters, whether or not a line ends there, and no blank where it shows nothing.
std::string one_spacing(const std::string& text) {
    static const std::array<std::string_view, 10> tight{"<", "≤", "≥", "=", "×", "∈", "⊙", "~", "±", "/"};
    std::string out;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] == '-' && !out.empty() && letter(out.back())) {
            std::size_t next = at + 1;
            while (next < text.size() && blank(text[next])) ++next;
            if (next < text.size() && letter(text[next])) {
                at = next - 1;
                continue;
            }
        }
        if (!blank(text[at])) out += text[at];
        else if (!out.empty() && out.back() != ' ') out += ' ';
    }
    for (const std::string_view sign : tight) {
        const std::string s(sign);
        out = replaced(replaced(out, " " + s, s), s + " ", s);
    }
    for (const char* mark : {".", ",", ";", ":", "?", "!", ")"}) out = replaced(out, std::string(" ") + mark, mark);
    out = replaced(out, "( ", "(");
    return out.substr(0, out.find_last_not_of(' ') + 1);
}

// Whether a sentence ends before s[end]; the point that ends it may be left out.
bool ends_sentence(const std::string& s, std::size_t end) {
    const auto is = [&](std::size_t at, std::string_view any) {
        return at < s.size() && any.find(s[at]) != std::string_view::npos;
    };
    if (end == s.size()) return true;
    if (is(end, ".?!")) ++end;
    while (is(end, "')")) ++end;
    if (end < s.size() && s[end] != ' ') return false;
    while (end > 0 && is(end - 1, "')")) --end;
    if (end == 0 || !is(end - 1, ".?!")) return false;
    const std::size_t word = s.find_last_of(" (", end - 2) + 1;
    static const std::array<std::string_view, 7> abbreviations{"al.", "c.f.", "e.g.", "Eq.", "Fig.", "i.e.", "w.r.t."};
    return std::find(abbreviations.begin(), abbreviations.end(), s.substr(word, end - word)) == abbreviations.end();
}

bool starts_sentence(const std::string& s, std::size_t at) {
    return at == 0 || (s[at - 1] == ' ' && ends_sentence(s, at - 1));
}

// Parts one after the other in `text` from `at` on, in whole words; `whole`: the first begins and the last ends a
// sentence where there is no cut.
struct Search {
    const std::string& text;
    const std::vector<std::string>& parts;
    bool cut_before, cut_after, whole;

    bool from(std::size_t at, std::size_t part) const {
        if (part == parts.size()) return true;
        const std::string& p = parts[part];
        const auto word = [&](std::size_t i) { return i < text.size() && (letter(text[i]) || digit(text[i])); };
        for (; (at = text.find(p, at)) != std::string::npos; ++at) {
            const std::size_t end = at + p.size();
            if ((at > 0 && word(at - 1) && word(at)) || (word(end - 1) && word(end))) continue;
            if (whole && part == 0 && !cut_before && !starts_sentence(text, at)) continue;
            if (whole && part + 1 == parts.size() && !cut_after && !ends_sentence(text, end)) continue;
            if (from(end, part + 1)) return true;
        }
        return false;
    }
};

}  // namespace

std::vector<Quotation> quotations(const std::string& markdown) {
    static const std::regex named(R"(^\s*\((\w+) ([^;)]+))");
    std::vector<Quotation> out;
    Index line = 1;
    bool code = false;
    for (std::size_t at = 0; at < markdown.size(); ++at) {
        line += markdown[at] == '\n';
        if (markdown[at] == '`') code = !code;
        if (markdown[at] != '"' || code) continue;
        const std::size_t end = std::min(markdown.find('"', at + 1), markdown.size());
        Quotation found{line, "", "", markdown.substr(at + 1, end - at - 1)};
        std::smatch match;
        const std::string after = markdown.substr(std::min(end + 1, markdown.size()), 80);
        if (std::regex_search(after, match, named) &&
            std::find(documents.begin(), documents.end(), match[1].str()) != documents.end())
            found.document = match[1], found.place = plain(match[2]);
        line += std::count(found.text.begin(), found.text.end(), '\n');
        out.push_back(std::move(found));
        at = end;
    }
    return out;
}

std::vector<Excerpt> excerpts(const std::string& text) {
    static const std::regex heading(R"(== (.+), line (\d+))");
    std::vector<Excerpt> out;
    std::istringstream in(text);
    std::smatch match;
    for (std::string line; std::getline(in, line);) {
        if (std::regex_match(line, match, heading)) out.push_back({match[1], std::stol(match[2]), ""});
        else if (!out.empty()) out.back().text += line + "\n";
    }
    return out;
}

std::string plain(const std::string& text) { return one_spacing(one_spelling(without_tex(text))); }

std::string fault(const Quotation& q, const std::vector<Excerpt>& all) {
    if (q.document.empty()) return "names no document and place";
    std::vector<std::string> parts;
    for (const std::string& part : split(q.text, ellipsis))
        if (const std::string p = plain(part); !p.empty()) parts.push_back(p);
    if (parts.empty()) return "quotes nothing";
    const std::string trimmed = plain(q.text);
    const bool cut_before = trimmed.starts_with(ellipsis), cut_after = trimmed.ends_with(ellipsis);
    bool place = false, stands = false;
    for (const Excerpt& e : all) {
        if (e.place != q.place) continue;
        place = true;
        const std::string text = plain(replaced(e.text, "[...]", " "));
        if (Search{text, parts, cut_before, cut_after, true}.from(0, 0)) return "";
        stands = stands || Search{text, parts, cut_before, cut_after, false}.from(0, 0);
    }
    if (!place) return "no excerpt of " + q.document + " " + q.place;
    return stands ? "begins or ends inside a sentence without …" : "does not stand there";
}

bool stands_in(const std::string& document, const std::string& quoted, Index from) {
    std::size_t begin = 0;
    for (Index line = 1; line < from && begin != std::string::npos; ++line) {
        begin = document.find('\n', begin);
        begin += begin != std::string::npos;
    }
    if (begin == std::string::npos) return false;
    const std::vector<std::string> text = words(plain(document.substr(begin)));
    std::size_t last = text.size();  // where the first part may begin
    if (from > 0) last = words(plain(document.substr(begin, document.find('\n', begin) - begin))).size();
    const auto margin = [](const std::string& word) {
        return (word.size() == 3 || word.size() == 4) && std::all_of(word.begin(), word.end(), digit);
    };
    // Where the words end that begin at `at`, or 0.
    const auto follow = [&](const std::vector<std::string>& part, std::size_t at) -> std::size_t {
        for (std::size_t i = 0; i < part.size(); ++at) {
            if (at == text.size()) return 0;
            // A quotation may begin or end inside what blanks enclose: (a bracket, a word before a comma).
            const bool edge = i == 0 || i + 1 == part.size();
            if (text[at] == part[i] || (edge && text[at].find(part[i]) != std::string::npos)) ++i;
            else if (i == 0 || !margin(text[at])) return 0;
        }
        return at;
    };
    std::size_t at = 0;
    for (const std::string& piece : split(replaced(quoted, "[...]", ellipsis), ellipsis)) {
        const std::vector<std::string> part = words(plain(piece));
        if (part.empty()) continue;
        std::size_t end = 0;
        for (; at < last && (end = follow(part, at)) == 0; ++at) {}
        if (end == 0) return false;
        // The word at which one part ends may be the one at which the next begins.
        at = end - 1, last = text.size();
    }
    return true;
}

}  // namespace causeway::proofs
