// What Tab does, whichever editor is told to do it. Plain C++: neither Lua nor the terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lua/shell/editor/editor.hpp"

namespace causeway::lua {

// The text from `begin` to the cursor becomes `text`; `candidates` are shown below the line. Where neither changes
// anything, nothing is known, and the terminal rings.
struct Tab {
    std::size_t begin = 0;
    std::string text;
    std::vector<std::string> candidates;
    bool inserts = false;
};

// Two spaces at the beginning of a line; else what all candidates share; where that is nothing new, the list of them.
Tab press_tab(const Completer& completer, const std::string& before_cursor);

}  // namespace causeway::lua
