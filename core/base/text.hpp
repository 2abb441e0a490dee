// Small helpers for messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace causeway {

// The candidate nearest to `word` by edit distance, or "" when none is near enough to be what was meant.
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

// ` (did you mean "fleet"?)`, or "" when nothing is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

// The text in double quotes, as a message may show what came from a file: what does not print becomes \xNN, a long
// text is cut.
std::string in_quotes(std::string_view text);

// "the number 1e999 is beyond Float64": what every format says of one.
std::string beyond_f64(std::string_view number);

// A to Z as a to z, whatever the locale; all other bytes as they are.
std::string in_lower_case(std::string text);

// The shortest decimal text that reads back as the same number: 0.1, 3.0, 1e-300, NaN, Inf, -Inf. It is never the text
// of an integer.
std::string number_text(double value);
std::string number_text(float value);

}  // namespace causeway
