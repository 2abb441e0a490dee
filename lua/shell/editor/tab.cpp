#include "lua/shell/editor/tab.hpp"

#include <algorithm>

namespace causeway::lua {
namespace {

std::string common_prefix(const std::vector<std::string>& words) {
    std::string prefix = words.front();
    for (const auto& word : words) {
        const auto differs = std::mismatch(prefix.begin(), prefix.end(), word.begin(), word.end());
        prefix.erase(differs.first, prefix.end());
    }
    return prefix;
}

}  // namespace

Tab press_tab(const Completer& completer, const std::string& before_cursor) {
    if (before_cursor.find_first_not_of(" \t", before_cursor.find_last_of('\n') + 1) == std::string::npos)
        return {before_cursor.size(), "  ", {}, true};
    Completion found = completer(before_cursor);
    if (found.words.empty()) return {};
    const std::string shared = common_prefix(found.words);
    const std::string typed = before_cursor.substr(found.begin);
    if (shared.size() > typed.size() || (found.words.size() == 1 && shared != typed))
        return {found.begin, shared, {}, true};
    if (found.words.size() == 1) return {};
    return {found.begin, typed, std::move(found.words), false};
}

}  // namespace causeway::lua
