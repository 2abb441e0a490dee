// What Tab offers: names, fields, methods, options, choices, files and topics of help. Runs no code of the user.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

struct lua_State;

namespace causeway::lua {

struct Completion {
    std::size_t begin = 0;           // where the word begins that the candidates replace
    std::vector<std::string> words;  // sorted, without repetition
};

// `text`: everything up to the cursor; `begin` counts from its start.
Completion complete(lua_State* L, const std::string& text);

}  // namespace causeway::lua
