// How wide a text is on a terminal.
#pragma once

#include <sstream>
#include <string>

namespace causeway::testing {

// Columns that a line takes: its characters, without accents over the one before and without sequences of colours.
inline int columns_of(const std::string& line) {
    int columns = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const auto byte = static_cast<unsigned char>(line[i]);
        if (byte == '\033') {
            while (++i < line.size() && !(line[i] >= '@' && line[i] <= '~' && line[i] != '[')) continue;
        } else if ((byte & 0xC0) != 0x80 && byte != 0xCC && byte != 0xCD) {
            ++columns;
        }
    }
    return columns;
}

// The first line of the text that is wider than `columns`, or "".
inline std::string too_wide(const std::string& text, int columns) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (columns_of(line) > columns) return line;
    }
    return "";
}

}  // namespace causeway::testing
