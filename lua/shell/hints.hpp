// A line of help for code that is not Lua where it is what Julia or Python would have.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace causeway::lua {

// `message` is what Lua's compiler says of `source`: "input[1]:2: ']' expected near ','". Returns "hint: ...", one line
// of at most 80 columns, where the source at that place has a habit that is known, else "". Plain C++.
std::string syntax_hint(std::string_view source, std::string_view message);

// The same of a script: where the line that Lua stops at, or the one before it, is an expression, the hint is that only
// the prompt shows values. `compiles` tells whether a text is Lua.
std::string script_hint(std::string_view source, std::string_view message,
                        const std::function<bool(const std::string&)>& compiles);

// Whether the source has a list of lists of numbers as Python writes it, [[1, 2], [3, 4]], which is a text to Lua.
bool has_list_in_long_brackets(std::string_view source);

}  // namespace causeway::lua
