// The error of a name that is none of those known: of a method, an update, a factorisation.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace causeway {

// `, expected one of "fleet", "vanilla"`
inline std::string expected_one_of(const std::vector<std::string>& names) {
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? ", expected one of " : ", ") + in_quotes(name);
    return list;
}

// Its sentence is what is said of the name, and the nearest known one, or where none is near `otherwise`. A caller that
// knows more names than core does, as those of papers, may say so in the place of the nearest one.
struct UnknownName : Error {
    UnknownName(std::string what_is_said, std::string unknown, std::vector<std::string> known_names,
                std::string where_none_is_near = "")
        : Error(sentence_of(what_is_said, did_you_mean(unknown, known_names), where_none_is_near)),
          said(std::move(what_is_said)),
          name(std::move(unknown)),
          known(std::move(known_names)),
          otherwise(std::move(where_none_is_near)) {}

    std::string sentence_with(const std::string& hint) const { return sentence_of(said, hint, otherwise); }

    std::string said, name;
    std::vector<std::string> known;
    std::string otherwise;

private:
    static std::string sentence_of(const std::string& said, const std::string& hint, const std::string& otherwise) {
        return ends_of(said) + (hint.empty() ? otherwise : hint);
    }
};

}  // namespace causeway
