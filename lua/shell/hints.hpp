// A line of help for code that is not Lua where it is what Julia or Python would have.
#pragma once

#include <string>
#include <string_view>

namespace causeway::lua {

// `message` is what Lua's compiler says of `source`: "input[1]:2: ']' expected near ','". Returns "hint: ...", one line
// of at most 80 columns, where the source at that place has a habit that is known, else "". Plain C++.
std::string syntax_hint(std::string_view source, std::string_view message);

}  // namespace causeway::lua
