#include "core/base/text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace causeway {
namespace {

// Edits (insert, delete, replace, swap of neighbours) that turn a into b.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> before(b.size() + 1), previous(b.size() + 1), row(b.size() + 1);
    std::iota(previous.begin(), previous.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            row[j] = std::min({previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (a[i - 1] != b[j - 1])});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], before[j - 2] + 1);
        }
        before.swap(previous);
        previous.swap(row);
    }
    return previous[b.size()];
}

std::vector<std::string_view> parts_of(std::string_view name) {
    std::vector<std::string_view> parts;
    for (std::size_t begin = 0; begin <= name.size();) {
        const std::size_t end = std::min(name.find('_', begin), name.size());
        parts.push_back(name.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

// How many edits may make a misspelt name of so many letters; more of them make another word.
std::size_t most_edits(std::size_t letters) { return std::clamp<std::size_t>(letters / 3, 1, 3); }

// Whether no part of a name, cross of cross_attention, is another word than that of the other name.
bool parts_are_near(std::string_view a, std::string_view b) {
    const auto of_a = parts_of(a), of_b = parts_of(b);
    if (of_a.size() != of_b.size()) return true;  // "_" itself is missing or too much
    for (std::size_t i = 0; i < of_a.size(); ++i)
        if (edit_distance(of_a[i], of_b[i]) > most_edits(of_a[i].size())) return false;
    return true;
}

template <class T>
std::string shortest(T value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Inf" : "-Inf";
    char text[32];
    std::string out(text, std::to_chars(text, text + sizeof text, value).ptr);
    if (out.find_first_of(".e") == std::string::npos) out += ".0";
    return out;
}

}  // namespace

std::string closest(std::string_view word, const std::vector<std::string>& candidates) {
    std::string best;
    std::size_t nearest = most_edits(word.size()) + 1;
    for (const auto& candidate : candidates) {
        const bool prefix = word.size() >= 3 && candidate.compare(0, word.size(), word) == 0;
        const std::size_t distance = prefix ? 1 : edit_distance(word, candidate);
        const bool meant = prefix || parts_are_near(word, candidate);
        if (meant && distance < nearest && distance < std::max(word.size(), candidate.size())) {
            nearest = distance;
            best = candidate;
        }
    }
    return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
    const std::string near = closest(word, candidates);
    return near.empty() ? "" : " (did you mean \"" + near + "\"?)";
}

std::string in_quotes(std::string_view text) {
    constexpr std::size_t max_size = 60;
    constexpr char digits[] = "0123456789ABCDEF";
    std::string out = "\"";
    for (const char c : text.substr(0, max_size)) {
        const auto code = static_cast<unsigned char>(c);
        if (code >= 0x20 && code < 0x7F) out += c;
        else (out += "\\x").append({digits[code >> 4], digits[code & 15]});
    }
    return out + (text.size() > max_size ? "...\"" : "\"");
}

std::string beyond_f64(std::string_view number) {
    return "the number " + std::string(number.substr(0, 60)) + (number.size() > 60 ? "..." : "") + " is beyond Float64";
}

std::string in_lower_case(std::string text) {
    for (char& letter : text)
        if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    return text;
}

std::string number_text(double value) { return shortest(value); }
std::string number_text(float value) { return shortest(value); }

}  // namespace causeway
