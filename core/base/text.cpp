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
    // Of a short word two other letters make another one.
    std::size_t nearest = (word.size() <= 4 ? 1 : word.size() / 2) + 1;
    for (const auto& candidate : candidates) {
        const bool prefix = word.size() >= 3 && candidate.compare(0, word.size(), word) == 0;
        const std::size_t distance = prefix ? 1 : edit_distance(word, candidate);
        if (distance < nearest && distance < std::max(word.size(), candidate.size())) {
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

std::string number_text(double value) { return shortest(value); }
std::string number_text(float value) { return shortest(value); }

}  // namespace causeway
